"""The list of dnf's plugin versionlock, in which lines of ours stand beside those of an administrator.

A line of ours ends with an own pattern for the architecture, which dnf reads like its own '*'. It stays ours when
'dnf versionlock delete' rewrites the file without comments. The comments say for whom lines are: an owner's pins, or what is held.
Lines that are not ours are kept as they are.
"""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import fnmatch
import re
from typing import Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.rpm import split

PATH = "etc/dnf/plugins/versionlock.list"
ANY = ".?*"
HEAD = "# Written by gpusmith for "
HELD = "what is held"
LINE = re.compile(r"^(?P<name>[^!#\s]+)-(?P<epoch>\d+):(?P<rest>[^-:\s]+-[^-:\s]+)$")
NAMED = re.compile(r"^(?P<name>.+?)-(?:[\d*?]+:)?[\d*?][^-]*(?:-[^-]+)?$")

ARCHES = ("", ".noarch", ".x86_64", ".aarch64")

# Versions by name.
Locks = Dict[str, List[str]]


def line(name: str, version: str) -> str:
    """A line of ours."""
    epoch, plain, release = split(version)
    return f"{name}-{epoch}:{plain}-{release}{ANY}"


def _parse(text: str) -> Optional[Tuple[str, str]]:
    """Name and full version of a line of ours; None if it is not."""
    found = LINE.match(text[: -len(ANY)]) if text.endswith(ANY) else None
    if found is None:
        return None
    epoch = "" if int(found["epoch"]) == 0 else f"{int(found['epoch'])}:"
    return found["name"], epoch + found["rest"]


class Listed(NamedTuple):
    """What the file says.

    Attributes:
        others: lines that are not ours.
        ours: by owner, or `HELD`, versions by name.
    """

    others: List[str]
    ours: Dict[str, Locks]

    def with_block(self, owner: str, locks: Mapping[str, Sequence[str]]) -> Listed:
        """The same with other lines for an owner."""
        changed = {**self.ours, owner: {name: list(versions) for name, versions in locks.items()}}
        return Listed(self.others, changed)

    def without(self, names: Iterable[str], keep: Mapping[str, str]) -> Listed:
        """The same without our lines of these names, but for those of versions to keep."""
        listed = set(names)

        def left(locks: Locks) -> Locks:
            found = {
                name: [each for each in versions if name not in listed or keep.get(name) == each]
                for name, versions in locks.items()
            }
            return {name: versions for name, versions in found.items() if versions}

        return Listed(self.others, {owner: left(locks) for owner, locks in self.ours.items()})

    def render(self) -> str:
        """The file's text."""
        lines = list(self.others)
        for owner, locks in sorted(self.ours.items()):
            if not locks:
                continue
            lines.append(f"{HEAD}{owner}.")
            lines += [line(name, each) for name in sorted(locks) for each in sorted(set(locks[name]))]
        return "".join(f"{each}\n" for each in lines)

    def foreign(self, name: str) -> List[str]:
        """Lines of others that say which versions of a package may be."""
        return [each for each in self.others if _speaks_of(each, name)]

    def hinders(self, name: str, version: str) -> Optional[str]:
        """A line of others that allows a package other versions only."""
        lines = self.foreign(name)
        return lines[0] if lines and not any(_covers(each, name, version) for each in lines) else None

    def holds(self, name: str, version: str) -> bool:
        """Whether upgrades leave a package at a version."""
        held = self.ours.get(HELD, {}).get(name, [])
        foreign = self.foreign(name)
        return (held == [version] or (not held and bool(foreign))) and all(
            _covers(each, name, version) for each in foreign
        )


def _speaks_of(text: str, name: str) -> bool:
    if text.startswith(("#", "!")) or not text.strip():
        return False
    found = NAMED.match(text.strip())
    return found is not None and fnmatch.fnmatchcase(name, found["name"])


def _covers(text: str, name: str, version: str) -> bool:
    epoch, plain, release = split(version)
    forms = [f"{name}-{plain}-{release}", f"{name}-{plain}"]
    forms += [f"{name}-{epoch}:{plain}-{release}", f"{name}-{epoch}:{plain}"]
    pattern = text.strip()
    return any(fnmatch.fnmatchcase(form + arch, pattern) for form in forms for arch in ARCHES)


def read(text: str) -> Listed:
    """The file's lines. Those of ours that no comment is above, since another program left it out, are held."""
    others: List[str] = []
    ours: Dict[str, Locks] = {}
    owner = HELD
    for each in text.splitlines():
        if each.startswith(HEAD):
            owner = each[len(HEAD) :].rstrip(".")
            continue
        found = _parse(each.strip())
        if found is None:
            others.append(each)
            owner = HELD
        else:
            ours.setdefault(owner, {}).setdefault(found[0], []).append(found[1])
    return Listed(others, ours)
