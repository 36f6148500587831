"""What keeps boots from loading a module: lines of modprobe.d, and the kernel's command line.

By modprobe.d(5), and by what modprobe of kmod 30 does with such lines.
"""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import fnmatch
import glob
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpusmith.probe.files import read_text

# The kernel's command line, now and at the next boot, as Debian, Ubuntu and EL have it.
COMMAND_LINES = (
    "/proc/cmdline", "/etc/kernel/cmdline", "/boot/grub/grub.cfg", "/boot/grub2/grub.cfg", "/boot/grub2/grubenv",
    "/boot/loader/entries/*.conf",
)  # fmt: skip
# How commands begin that do nothing, or only say something: by themselves or as the argument of a shell.
NOTHING = re.compile(
    r"(?:(?:\S*/)?(?:ba|da)?sh\s+-\w*c\s+)?['\"({\s]*(?:exec\s+)?(?:\S*/)?(?:true|false|:|exit|echo|printf|logger)(?![\w./-])"
)
LOADER = re.compile(r"\b(?:modprobe|insmod)\b")


@dataclass(frozen=True)
class Bars:
    """What keeps a module from being loaded, each by the file that says so; None where nothing does.

    Attributes:
        install: has modprobe run a command that loads nothing instead.
        softdep: names soft dependencies, with which modprobe takes no notice of install lines.
        refused: has the kernel refuse the module, whoever loads it.
        blacklist: keeps it from being loaded by an alias, as for a device, and by modules-load.d; 'modprobe NAME' loads it.
    """

    install: str | None = None
    softdep: str | None = None
    refused: str | None = None
    blacklist: str | None = None

    @property
    def of_boots(self) -> str | None:
        """What keeps modules-load.d from loading it."""
        return self.blacklist or self.refused or (None if self.softdep else self.install)


def plain_module(name: str) -> str:
    """A module's name as the kernel shows it."""
    return name.replace("-", "_")


def loads_nothing(command: str) -> bool:
    """Whether the command of an install line loads no module. What a program of somebody's own does is not known."""
    command = re.sub(r"\s#.*", "", command)
    return NOTHING.match(command) is not None and LOADER.search(command) is None


def bars(name: str, rules: Sequence[tuple[str, str]], command_lines: Sequence[tuple[str, str]]) -> Bars:
    """What keeps boots from loading a module; files in /run they do not have.

    Args:
        name: as the kernel shows it.
        rules: lines of modprobe.d in their order, each with its file.
        command_lines: of the kernel, each with its file.
    """
    rules = [(line, path) for line, path in rules if not path.startswith("/run/")]
    command, install = _first("install", name, rules)
    needs, softdep = _first("softdep", name, rules)
    blacklists = [(line.split()[1:], path) for line, path in rules if line.split()[0] == "blacklist"]
    blacklists += _option("modprobe.blacklist", command_lines)
    # The kernel compares with the name in the module, which has no dashes.
    refused = (path for names, path in _option("module_blacklist", command_lines) if name in names)
    return Bars(
        install=install if loads_nothing(command) else None,
        softdep=softdep if any(not word.endswith(":") for word in needs.split()) else None,
        refused=next(refused, None),
        blacklist=next((path for names, path in blacklists if name in map(plain_module, names)), None),
    )


def _first(kind: str, name: str, rules: Sequence[tuple[str, str]]) -> tuple[str, str | None]:
    """What the line says that counts, the first one whose name, or pattern of names, is the module's; with its file."""
    for line, path in rules:
        words = line.split(None, 2)
        if len(words) == 3 and words[0] == kind and fnmatch.fnmatchcase(name, plain_module(words[1])):
            return words[2], path
    return "", None


def _option(name: str, command_lines: Sequence[tuple[str, str]]) -> list[tuple[list[str], str]]:
    found = re.compile(rf"(?<![\w.-]){re.escape(name)}=([\w,-]+)")
    return [(names.split(","), path) for text, path in command_lines for names in found.findall(text)]


def read_command_lines(paths: Iterable[str] = COMMAND_LINES) -> list[tuple[str, str]]:
    """Lines that have, or may have, the kernel's command line, each with its file."""
    files = [path for pattern in paths for path in sorted(glob.glob(pattern))]
    rows = [(line.strip(), path) for path in files for line in (read_text(path) or "").splitlines()]
    return [(line, path) for line, path in rows if "blacklist=" in line and not line.startswith("#")]
