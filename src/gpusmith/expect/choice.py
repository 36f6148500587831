"""Which exact version of the driver is meant on a node where a branch, or the latest one, is asked for.

A run chooses once, for all nodes that get a driver in it. A node that serves keeps its version, and so does a machine outside
of the cluster with a driver that is loaded, since jobs may use it, as long as that is what was asked for: a newer release is no
drift. Only an upgrade changes drivers of nodes that serve. Role, preflight and suite all come here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from gpusmith.data import systems
from gpusmith.data.models import Model
from gpusmith.errors import Refusal
from gpusmith.expect import components, fabric, kernels, layouts, packages, versions, wanted
from gpusmith.expect.layouts import ANY_LAYOUT, Layout, Unmet
from gpusmith.probe.record import Record
from gpusmith.wanted.node import NodeWanted
from gpusmith.wording import quoted

SHOWN = 3
"""Versions of each node that a refusal names."""


# --- on one node -----------------------------------------------------------------------------------------------------


def installed(record: Record, asked: str) -> str:
    """The version on a node that is what was asked for; of several, which only a half-done change leaves, that of most packages.

    Returns:
        Without the packager's part; empty if there is none.
    """
    of_packages = packages.of_driver(record, wanted.driver_of(NodeWanted(name=""))).values()
    counted = Counter(
        versions.upstream(version) for version in of_packages if versions.answers(version, asked)
    )
    if counted:
        most = max(counted.values())
        return versions.newest_first(version for version, count in counted.items() if count == most)[0]
    # A driver that no package manager knows of.
    loaded = record.module.installed_version or record.module.loaded_version
    return str(loaded) if not of_packages and versions.answers(loaded, asked) else ""


def is_to_come(record: Record, asked: str, upgrade: bool = False) -> bool:
    """Whether a version has to be chosen for a node before anything can be planned for it."""
    return versions.is_open(asked) and (upgrade or not _stays(record, asked))


def _stays(record: Record, asked: str) -> bool:
    """Whether a node keeps the driver that it has: jobs may use it."""
    if record.kubernetes.joined:
        return bool(installed(record, versions.LATEST))
    # Of an engine that nobody knows there may be jobs as well.
    return versions.answers(record.module.loaded_version, asked) and bool(installed(record, asked))


def meant(record: Record, asked: str, chosen: str = "", upgrade: bool = False) -> str:
    """The exact version that a node has to have; what was asked for where nobody can tell.

    Args:
        record: of the node.
        asked: in the inventory, or for the upgrade.
        chosen: in this run; empty where nothing was.
        upgrade: nodes that keep their driver otherwise get it as well.
    """
    if not versions.is_open(asked):
        return asked
    kept = installed(record, asked)
    return (chosen if is_to_come(record, asked, upgrade) else "") or kept or asked


def driver_of(host: NodeWanted, model: Model | None, record: Record) -> wanted.Driver:
    """What a host's inventory says of its driver, with the version and the names of packages that are meant on it."""
    version = meant(record, host.driver.version)
    driver = wanted.driver_of(host, model, version=version, layout=_layout(record, host, version))
    return fabric.with_subnet_manager(record, components.resolved(record, driver))


def _layout(record: Record, host: NodeWanted, version: str) -> Layout:
    """Names of packages as site.yml installs them; on a node whose driver others brought, any that there are."""
    if not any(PurePath(path).name.startswith(f"gpusmith-{layouts.SET}.") for path in record.managed_files):
        return ANY_LAYOUT
    system = {"os_id": record.host.os_id, "os_version": record.host.os_version}
    try:
        known: layouts.Layouts = systems.of_role(
            "nvidia_driver", systems.os_facts(system), "__nvidia_driver_layouts"
        )
        return layouts.of_machine(known, host.driver, version, kernels.bootable(record))
    except (systems.UnknownSystem, Unmet):
        # Preflight says what is wrong with the inventory.
        return ANY_LAYOUT


# --- for all nodes of a run ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Offer:
    """What one node could get.

    Attributes:
        asked: a branch, or the latest one.
        versions: of which it is offered all packages, and which its GPUs and kernels take.
        refusal: why there are none.
    """

    asked: str
    versions: tuple[str, ...] = ()
    refusal: Refusal | None = None


@dataclass(frozen=True)
class Choice:
    """What a run decided for a node: a version, or why there is none."""

    version: str = ""
    refusal: Refusal | None = None


def choose(offers: Mapping[str, Offer]) -> dict[str, Choice]:
    """By node. All that ask for the same get the newest version that each of them can have; none gets one of its own."""
    found = {name: Choice(refusal=offer.refusal) for name, offer in offers.items() if offer.refusal}
    for asked in sorted({offer.asked for offer in offers.values()}):
        group = {name: offer for name, offer in offers.items() if offer.asked == asked and not offer.refusal}
        common = set.intersection(*(set(offer.versions) for offer in group.values())) if group else set()
        one = next(iter(versions.newest_first(common)), "")
        refusal = None if one else _apart(asked, group)
        found.update({name: Choice(one, refusal) for name in group})
    return found


def _apart(asked: str, group: Mapping[str, Offer]) -> Refusal:
    """Repositories have no version in common."""
    rows = "; ".join(
        f"'{name}' {quoted(versions.newest_first(offer.versions)[:SHOWN])}"
        for name, offer in sorted(group.items())
    )
    return Refusal(
        f"driver version: no version of '{asked}' is offered to all nodes that get it: {rows}; allowed: one for all of them.",
        "Bring their repositories to one state, or give exact versions in 'nvidia_driver_version'.",
    )


def lines(offers: Mapping[str, Offer], choices: Mapping[str, Choice]) -> list[str]:
    """For a person: what was asked for, what that is in this run, and what some nodes could have had."""
    found = []
    decided = {(offers[name].asked, choice.version) for name, choice in choices.items() if choice.version}
    for asked, version in sorted(decided):
        names = sorted(name for name, choice in choices.items() if choice.version == version)
        names = [name for name in names if offers[name].asked == asked]
        found.append(
            f"Driver '{asked}' is {version} in this run, for {', '.join(names)}.{_newer(offers, names, version)}"
        )
    return found


def _newer(offers: Mapping[str, Offer], names: Sequence[str], version: str) -> str:
    ahead = {name: _newest(offers[name].versions) for name in names}
    ahead = {name: newest for name, newest in ahead.items() if newest != version}
    rows = ", ".join(f"{name} {newest}" for name, newest in ahead.items())
    return f" Newer ones are not offered to all: {rows}." if ahead else ""


def _newest(offered: Iterable[str]) -> str:
    return next(iter(versions.newest_first(offered)), "")
