"""What check mode told of machines, compared with what then came."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

BY_ITSELF = re.compile(r"linux-headers-|kernel-devel|gpg-pubkey$")
"""Packages whose names only the machine's kernel decides, and keys that rpm lists as packages."""
OFFERED = "(as offered)"
"""What check mode tells in the place of a version that the repository decides."""
UNKNOWN_DEPENDENCIES = "only a run can tell: which packages come along"


@dataclass(frozen=True)
class Told:
    """What check mode told of a machine.

    Attributes:
        packages: versions by name, as far as they were told.
        complete: whether that is all of them, with what comes along.
        files: paths.
        units: with '.service'.
        may_change: paths of which it told that only a run can tell.
    """

    packages: Mapping[str, str]
    complete: bool
    files: frozenset[str]
    units: frozenset[str]
    may_change: frozenset[str]


NOTHING = Told({}, True, frozenset(), frozenset(), frozenset())
"""Of a machine of which check mode said nothing."""


@dataclass(frozen=True)
class Machine:
    """What a machine has, by molecule/shared/snapshot.sh."""

    packages: Mapping[str, str]
    files: Mapping[str, str]
    units: frozenset[str]


def told(output: str) -> dict[str, Told]:
    """By machine, from what a run of Ansible in check mode has printed."""
    section = output.partition("WHAT WOULD CHANGE")[2].partition("\nChecked (")[0]
    found: dict[str, Told] = {}
    for names, text in re.findall(r"(?m)^(\S.*):\n((?: .*\n?)+)", section):
        items = {
            kind: [item for line in re.findall(rf"(?m)^ +{kind}: (.+)$", text) for item in line.split(", ")]
            for kind in ("packages", "packages that come along", "files", "units")
        }
        packages = [*items["packages"], *items["packages that come along"]]
        found |= dict.fromkeys(
            names.split(", "),
            Told(
                dict(item.split(" ", 1) for item in packages),
                UNKNOWN_DEPENDENCIES not in text,
                frozenset(items["files"]),
                frozenset(items["units"]),
                frozenset(re.findall(r"only a run can tell: .*'(/\S+)'", text)),
            ),
        )
    return found


def kept(path: Path) -> Machine:
    """What a snapshot has."""
    rows = [line.split(" ") for line in path.read_text().splitlines()]
    return Machine(
        {row[1]: row[2] for row in rows if row[0] == "package"},
        {row[1]: row[2] for row in rows if row[0] == "file"},
        frozenset(row[1] for row in rows if row[0] == "active"),
    )


def differences(said: Told, before: Machine, after: Machine) -> list[str]:
    """Where what came is not what was told, in words."""
    new = {name: version for name, version in after.packages.items() if before.packages.get(name) != version}
    wrong = [
        f"package {name} {version} was told, there is {after.packages.get(name)}"
        for name, version in said.packages.items()
        if not _is(after.packages.get(name), version)
    ]
    untold = sorted(name for name in set(new) - set(said.packages) if not BY_ITSELF.match(name))
    wrong += [f"package {name} was not told" for name in untold if said.complete]
    changed = {path for path, digest in after.files.items() if before.files.get(path) != digest}
    wrong += [f"file {path} was told, and is as before" for path in sorted(said.files - changed)]
    # What a role changes of others' files, it keeps as it was.
    may_come = said.may_change | {f"{path}.before-gpusmith" for path in said.may_change | said.files}
    ours = {path for path in changed if "gpusmith" in path.rpartition("/")[2]} - may_come
    wrong += [f"file {path} was not told" for path in sorted(ours - said.files)]
    return wrong + [f"unit {unit} was told, and does not run" for unit in sorted(said.units - after.units)]


def _is(version: str | None, told: str) -> bool:
    """Whether a version is the one that was told, which may lack the packager's part; snapshots of rpm have no epoch."""
    if version is None:
        return False
    return told == OFFERED or version.startswith((told, told.rpartition(":")[2]))
