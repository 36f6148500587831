"""What boots load, set and turn on, by the files that systemd reads."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import fnmatch
import glob
import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gpusmith.probe.files import read_text
from gpusmith.probe.modprobe import Bars, bars, plain_module, read_command_lines

MODULES = ("overlay", "br_netfilter")
SYSCTLS = (
    "net.ipv4.ip_forward", "net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-ip6tables",
    "fs.inotify.max_user_instances", "fs.inotify.max_user_watches",
)  # fmt: skip
# What users add to those stands in files of ours: without looking there, nobody could tell that it is right already.
MODULE_FILES = "/etc/modules-load.d/gpusmith-*"
SYSCTL_FILES = "/etc/sysctl.d/*gpusmith-*"
# Where modules-load.d, sysctl.d and modprobe.d are: of files with one name, the first folder's counts.
BOOT_FOLDERS = ("/etc", "/run", "/usr/local/lib", "/usr/lib")
UNIT_FOLDER = "/etc/systemd/system"
# Without the first two no program computes on a GPU.
DRIVER_MODULES = ("nvidia", "nvidia_uvm", "nvidia_modeset")
# Services that make compressed swap by themselves, without swap.target: zram-tools of Debian and zram-config of Ubuntu. What
# systemd's zram generator makes is wanted by swap.target.
SWAP_SERVICES = ("zramswap.service", "zram-config.service")


@dataclass(frozen=True)
class BootModule:
    """What boots do with a kernel module.

    Attributes:
        file: that has it loaded, or says that it is part of the kernel; None if there is none.
        forbidden_by: the file that keeps boots from loading it.
    """

    file: str | None
    forbidden_by: str | None


@dataclass(frozen=True)
class BootParameter:
    """What boots do with a kernel parameter.

    Attributes:
        value: that they set; None if they set none.
        files: that say so.
    """

    value: str | None
    files: tuple[str, ...]


@dataclass(frozen=True)
class Boot:
    """The next boot.

    Attributes:
        swap_units: links that start a swap unit, or a service that makes swap, although swap.target is masked.
        driver: what keeps the driver's modules from being loaded, by their names.
    """

    modules: Mapping[str, BootModule]
    sysctl: Mapping[str, BootParameter]
    swap_units: tuple[str, ...]
    driver: Mapping[str, Bars] = field(default_factory=dict)


def boot_files(kind: str) -> list[str]:
    """Files of modules-load.d, sysctl.d or modprobe.d in the order in which boots read them."""
    found: dict[str, str] = {}
    for folder in reversed(BOOT_FOLDERS):
        for path in glob.glob(os.path.join(folder, kind, "*.conf")):
            found[os.path.basename(path)] = path
    # What is no file, such as a link to /dev/null, only takes those of the same name out.
    return [found[name] for name in sorted(found) if os.path.isfile(found[name])]


def boot_lines(kind: str) -> list[tuple[str, str]]:
    """Their lines without comments, each with its file. In modprobe.d a line goes on behind a backslash."""
    texts = [(read_text(path) or "", path) for path in boot_files(kind)]
    if kind == "modprobe.d":
        texts = [(text.replace("\\\n", " "), path) for text, path in texts]
    rows = [(line.strip(), path) for text, path in texts for line in text.splitlines()]
    return [(line, path) for line, path in rows if line and line[0] not in "#;"]


def part_of_kernel(name: str, builtin: str) -> bool:
    """Whether the text of modules.builtin has a module."""
    pattern = r"/{}\.ko".format(re.escape(plain_module(name)).replace("_", "[_-]"))
    return re.search(pattern, builtin) is not None


def boot_modules(
    builtin: str, builtin_file: str, command_lines: Sequence[tuple[str, str]] = ()
) -> dict[str, BootModule]:
    """Who has boots load a module, and who keeps them from it; what is part of the kernel (modules.builtin) needs nobody."""
    lines, rules = boot_lines("modules-load.d"), boot_lines("modprobe.d")
    loads = {plain_module(name): path for name, path in reversed(lines)}
    found = {}
    for name in (*MODULES, *(name for name, _path in lines)):
        plain = plain_module(name)
        if part_of_kernel(name, builtin):
            found[name] = BootModule(file=builtin_file, forbidden_by=None)
        else:
            forbidden = bars(plain, rules, command_lines).of_boots
            found[name] = BootModule(file=loads.get(plain), forbidden_by=forbidden)
    return found


class Setting(NamedTuple):
    """A line of sysctl.d."""

    value: str | None
    file: str


def sysctl_key(name: str) -> str:
    """A parameter's path below /proc/sys."""
    first = re.search(r"[./]", name)
    if first is not None and first.group() == ".":
        # Then a slash is a dot within a name, as in that of a network interface.
        return name.translate(str.maketrans("./", "/."))
    return name


def sysctl_settings(lines: Iterable[tuple[str, str]]) -> dict[str, Setting]:
    """What systemd-sysctl keeps of lines in their order, by key; '-NAME' alone has no value."""
    kept: dict[str, Setting] = {}
    for line, path in lines:
        name, assigned, text = line.partition("=")
        if not assigned and line[0] != "-":
            continue  # systemd-sysctl ignores it as well
        key = sysctl_key(name.lstrip("-").strip())
        value = " ".join(text.split()) if assigned else None
        if key in kept and kept[key].value == value:
            continue
        # The order counts for patterns: the last one that matches is written last.
        kept.pop(key, None)
        kept[key] = Setting(value, path)
    return kept


def _is_pattern(key: str) -> bool:
    return any(sign in key for sign in "*?[")


def _matches(key: str, pattern: str) -> bool:
    parts, patterns = key.split("/"), pattern.split("/")
    return len(parts) == len(patterns) and all(map(fnmatch.fnmatchcase, parts, patterns))


def boot_sysctl(name: str, settings: Mapping[str, Setting], root: str = "/proc/sys") -> BootParameter:
    """What boots set a parameter to, and the files that say so.

    A pattern gives all values that its parameters get, each once; those that '-NAME' takes out keep the kernel's own.
    """
    key = sysctl_key(name)
    keys = [os.path.relpath(path, root) for path in glob.glob(os.path.join(root, key))]
    rows = []
    for one in keys if keys and _is_pattern(key) else [key]:
        # A line with the name itself wins over every pattern, wherever it stands.
        said = [settings[one]] if one in settings else []
        said += [
            row
            for pattern, row in reversed(list(settings.items()))
            if _is_pattern(pattern) and row.value is not None and _matches(one, pattern)
        ]
        rows += said[:1]
    values = sorted({row.value for row in rows if row.value is not None})
    return BootParameter(
        value=", ".join(values) if values else None, files=tuple(sorted({row.file for row in rows}))
    )


def swap_units(folder: str | None = None) -> list[str]:
    """Links by which boots start a swap unit, or a service that makes swap, although swap.target is masked."""
    found = []
    for kind in ("wants", "requires"):
        for name in ("*.swap", *SWAP_SERVICES):
            found += glob.glob(os.path.join(folder or UNIT_FOLDER, f"*.{kind}", name))
    return sorted(path for path in found if os.path.islink(path) and "/swap.target." not in path)


def gather() -> Boot:
    """What boots load and set, by the files that systemd reads."""
    builtin = f"/lib/modules/{platform.release()}/modules.builtin"
    lines = boot_lines("sysctl.d")
    ours = (line.partition("=")[0].strip() for line, path in lines if fnmatch.fnmatch(path, SYSCTL_FILES))
    settings = sysctl_settings(lines)
    kernel = read_command_lines()
    rules = boot_lines("modprobe.d")
    return Boot(
        modules=boot_modules(read_text(builtin) or "", builtin, kernel),
        sysctl={name: boot_sysctl(name, settings) for name in (*SYSCTLS, *ours)},
        swap_units=tuple(swap_units()),
        driver={name: bars(name, rules, kernel) for name in DRIVER_MODULES},
    )
