"""What rpm's database and dnf's lists say: packages as lines of fields, and the order of versions."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import re
from functools import cmp_to_key
from typing import Dict, Iterable, List, NamedTuple, Set, Tuple

# Fields of `Row`, as rpm and dnf are asked for them.
INSTALLED = (
    "%{NAME}\\t%|EPOCH?{%{EPOCH}:}:{}|%{VERSION}-%{RELEASE}\\t%{ARCH}\\t%{SOURCERPM}\\t%{DBINSTANCE}\\n"
)
OFFERED = "%{name}\\t%{evr}\\t%{arch}\\t%{sourcerpm}\\t%{repoid}"
# Keys are packages of this name in rpm's database.
KEYS = "gpg-pubkey"
SOURCES = ("src", "nosrc")
FOREIGN = ("i386", "i486", "i586", "i686")
# Packages that provide these stand side by side in several versions, as kernels do.
SIDE_BY_SIDE = re.compile(r"installonlypkg\(|multiversion\(kernel\)|kernel(?:-PAE)?$")
# NAME-VERSION-RELEASE.ARCH
BUILD = re.compile(r"([A-Za-z].*)-[^-]+-[^-]+\.[^.-]+")
PART = re.compile(r"[0-9]+|[a-zA-Z]+|~|\^")


class Row(NamedTuple):
    """One package of one version.

    Attributes:
        version: full, with an epoch unless that is 0.
        source: name of the source package.
        place: the repository's id, or the entry's number in rpm's database: later ones are higher.
    """

    name: str
    version: str
    arch: str
    source: str
    place: str

    @property
    def build(self) -> str:
        """Name of this very build. Packages of kernels stand side by side, and are asked for by it."""
        return f"{self.name}-{self.version.rpartition(':')[2]}.{self.arch}"


def names_of_builds(words: Iterable[str]) -> List[str]:
    """Names of packages, of words that name one build: rpm's database knows patterns of names only."""
    found = (BUILD.fullmatch(word) for word in words)
    return sorted({match.group(1) for match in found if match})


def parse_rows(text: str) -> List[Row]:
    """Packages of this machine's own architecture from lines of `INSTALLED` or `OFFERED`."""
    found = []
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) != 5 or fields[0] == KEYS or fields[2] in SOURCES + FOREIGN:
            continue
        name, version, arch, source, place = fields
        found.append(Row(name, re.sub(r"^0:", "", version), arch, source_name(source) or name, place))
    return found


def source_name(file: str) -> str:
    """Name of the source package by the name of its file; empty if there is none."""
    parts = file.rsplit("-", 2)
    return parts[0] if len(parts) == 3 else ""


def split(version: str) -> Tuple[int, str, str]:
    """Epoch, version and release."""
    epoch, colon, rest = version.rpartition(":")
    plain, _, release = rest.partition("-")
    return int(epoch) if colon else 0, plain, release


def _compare_parts(first: str, second: str) -> int:
    """As rpmvercmp() of librpm."""
    ours, theirs = PART.findall(first), PART.findall(second)
    for at in range(max(len(ours), len(theirs))):
        one, two = (parts[at] if at < len(parts) else "" for parts in (ours, theirs))
        if one == two:
            continue
        # A tilde sorts before everything, the end included; a caret behind the end, before all else.
        for sign, before in (("~", -1), ("^", 1)):
            if sign in (one, two):
                mine = one == sign
                rest = two if mine else one
                less = before if not rest else -1
                return less if mine else -less
        if not one or not two:
            return 1 if one else -1
        if one.isdigit() != two.isdigit():
            return 1 if one.isdigit() else -1
        if one.isdigit() and int(one) == int(two):
            continue
        smaller = int(one) < int(two) if one.isdigit() else one < two
        return -1 if smaller else 1
    return 0


def compare(first: str, second: str) -> int:
    """Less than, equal to or greater than 0, as the first version is older, the same or newer."""
    ours, theirs = split(first), split(second)
    if ours[0] != theirs[0]:
        return -1 if ours[0] < theirs[0] else 1
    return _compare_parts(ours[1], theirs[1]) or _compare_parts(ours[2], theirs[2])


def newest_first(versions: Iterable[str]) -> List[str]:
    """Each version once."""
    return sorted(set(versions), key=cmp_to_key(compare), reverse=True)


def twice(rows: Iterable[Row]) -> Set[str]:
    """Names that are there in more than one version of one architecture."""
    seen: Dict[Tuple[str, str], Set[str]] = {}
    for row in rows:
        seen.setdefault((row.name, row.arch), set()).add(row.version)
    return {name for (name, _arch), versions in seen.items() if len(versions) > 1}
