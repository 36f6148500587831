"""What check mode told of machines, compared with what then came."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

BY_ITSELF = re.compile(r"linux-headers-|kernel-devel|gpg-pubkey$")
"""Packages whose names only the machine's kernel decides, and keys that rpm lists as packages."""
OFFERED = "(as offered)"
"""What check mode tells in the place of a version that the repository decides."""
REMOVED = "is removed"
UNKNOWN_DEPENDENCIES = "only a run can tell: which packages come along"
PLACES = ("/etc/", "/usr/local/", "/opt/", "/run/cdi/", "/run/modprobe.d/", "/var/lib/gpusmith/")
"""Where molecule/shared/snapshot.sh looks for files."""
NOT_BY_NAME = {
    "dnf's locks of packages, which are told by their names": r"/etc/dnf/plugins/versionlock\.list$",
    "kubeadm's, which check mode tells of by 'joins the cluster'": r"/etc/kubernetes/(?:kubelet\.conf|pki/ca\.crt)$",
    "of the cluster's network, whose pods write on each node that joins": r"/etc/cni/net\.d/",
    "the kubelet's own, for 'shutdownGracePeriod'": r"/etc/systemd/logind\.conf\.d/99-kubelet\.conf$",
}
"""Files below /etc that no package owns and that check mode does not name, by what they are."""
STARTED_BY_PACKAGES = re.compile(r"nvidia-cdi-refresh\.(?:path|service)$")
"""Units that their package itself enables, and that no role needs (role nvidia_container_toolkit)."""
OURS = "gpusmith-"


@dataclass(frozen=True)
class Told:
    """What check mode told of a machine.

    Attributes:
        packages: versions by name, as far as they were told; None for those that go.
        complete: whether that is all of them, with what comes along.
        files: paths.
        units: with '.service'.
        may_change: paths of which it told that only a run can tell.
    """

    packages: Mapping[str, str | None]
    complete: bool
    files: frozenset[str]
    units: frozenset[str]
    may_change: frozenset[str]


NOTHING = Told({}, True, frozenset(), frozenset(), frozenset())
"""Of a machine of which check mode said nothing."""


@dataclass(frozen=True)
class Machine:
    """What a machine has, by molecule/shared/snapshot.sh.

    Attributes:
        packages: versions by name.
        files: digests by path.
        links: targets by path. Those who enable units and offer alternatives make them.
        owned: paths that belong to packages.
        units: 'active' and 'enabled', each with the units of which it is true.
    """

    packages: Mapping[str, str]
    files: Mapping[str, str]
    links: Mapping[str, str]
    owned: frozenset[str]
    units: frozenset[tuple[str, str]]


# --- reading -------------------------------------------------------------------------------------------------------


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
                dict(map(_package, packages)),
                UNKNOWN_DEPENDENCIES not in text,
                frozenset(map(_real, items["files"])),
                frozenset(items["units"]),
                frozenset(re.findall(r"only a run can tell: .*'(/\S+)'", text)),
            ),
        )
    return found


def _package(item: str) -> tuple[str, str | None]:
    """Its name, and the version that it gets: 'NAME NEW', 'NAME OLD -> NEW' or 'NAME OLD is removed'."""
    name, _, text = item.partition(" ")
    return name, None if text.endswith(REMOVED) else text.rpartition(" -> ")[2]


def _real(path: str) -> str:
    return path.removeprefix("/var") if path.startswith("/var/run/") else path


def kept(path: Path) -> Machine:
    """What a snapshot has."""
    rows = [line.split(" ") for line in path.read_text().splitlines()]
    return Machine(
        {row[1]: row[2] for row in rows if row[0] == "package"},
        {row[1]: row[2] for row in rows if row[0] == "file"},
        {row[1]: row[2] for row in rows if row[0] == "link"},
        frozenset(row[1] for row in rows if row[0] == "owned"),
        frozenset((row[0], row[1]) for row in rows if row[0] in ("active", "enabled")),
    )


# --- comparing -----------------------------------------------------------------------------------------------------


def differences(said: Told, before: Machine, after: Machine) -> list[str]:
    """Where what came is not what was told, in words."""
    return [
        *_of_packages(said, before, after),
        *_of_files(said, before, after),
        *_of_units(said, before, after),
    ]


def _of_packages(said: Told, before: Machine, after: Machine) -> Iterator[str]:
    for name, version in said.packages.items():
        seen = after.packages.get(name)
        if not (seen is None if version is None else _is(seen, version)):
            yield f"package {name} {version or REMOVED} was told, there is {seen}"
    if said.complete:
        untold = (name for name in _changed(before.packages, after.packages) if name not in said.packages)
        for name in untold:
            if not BY_ITSELF.match(name):
                went = "" if name in after.packages else " went, and"
                yield f"package {name}{went} was not told"


def _of_files(said: Told, before: Machine, after: Machine) -> Iterator[str]:
    changed = set(_changed(before.files, after.files))
    for path in sorted(said.files - changed - set(_changed(before.links, after.links))):
        if path.startswith(PLACES):
            yield f"file {path} was told, and is as before"
    # What a role changes of others' files, it keeps as it was, and takes that away where it puts the file back.
    told = said.files | said.may_change
    told |= {f"{path}.before-gpusmith" for path in told}
    for path in sorted(changed - told - before.owned - after.owned):
        if path.startswith("/etc/") and not any(re.match(each, path) for each in NOT_BY_NAME.values()):
            yield f"file {path}{'' if path in after.files else ' went, and'} was not told"


def _of_units(said: Told, before: Machine, after: Machine) -> Iterator[str]:
    # A service of a package goes with it, and where packages go, other ones may be told that stop.
    goes = None in said.packages.values()
    now = {unit for state, unit in after.units if state == "active"}
    stopped = {unit for _state, unit in before.units - after.units} if goes else set()
    for unit in sorted(said.units - now - stopped):
        yield f"unit {unit} was told, and does not run"
    for state, unit in sorted(before.units ^ after.units):
        is_new = (state, unit) in after.units
        of_package = STARTED_BY_PACKAGES.match(unit) or (goes and not is_new and not unit.startswith(OURS))
        if unit not in said.units and not of_package:
            yield f"unit {unit} is {'' if is_new else 'no longer '}{state}, and that was not told"


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> Iterable[str]:
    """Names that came, went, or have another value."""
    return sorted(name for name in {*before, *after} if before.get(name) != after.get(name))


def _is(version: str | None, told: str) -> bool:
    """Whether a version is the one that was told, which may lack the packager's part; snapshots of rpm have no epoch."""
    if version is None:
        return False
    return told == OFFERED or version.startswith((told, told.rpartition(":")[2]))
