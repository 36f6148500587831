"""Packages: those of the driver by names and versions, those of other subjects by names alone, and what must be held."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Set
from functools import cache
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.base import alike

from gpusmith.data.operands import MANAGED
from gpusmith.expect import kernels, layouts, signatures, steps, versions
from gpusmith.expect.wanted import Driver, Packages
from gpusmith.probe.record import Record
from gpusmith.problems import Cure, Problem

HELD = (
    "containerd.io",
    "kubelet",
    "kubeadm",
    "kubectl",
    "kubernetes-cni",
    "cri-tools",
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
    "libnvidia-container-tools",
    "libnvidia-container1",
)
"""Besides the driver's, packages that nobody's routine upgrade may change."""
HELD_PATTERNS = (
    "*nvidia*",
    "libcuda*",
    "libnvcuvid*",
    "libnvoptix*",
    "libnvsdm*",
    "libxnvctrl*",
    "cuda-drivers*",
    "src:nvidia-graphics-drivers*",
)
"""Packages that are the driver's if they have its version, in any layout."""
SETTINGS = ("nvidia-settings*", "libxnvctrl*", "src:nvidia-settings*")
"""NVIDIA's panel for X and its library. Others need it, as hwloc does, in whatever version their distribution has."""


def named(wanted: Driver, flavour: str, fabric_manager: bool) -> list[str]:
    """Packages of the driver that must be there."""
    layout = wanted.layout
    kernel = layout.kernel.get(flavour, ())
    fabric = [layout.fabric_manager] if fabric_manager and layout.fabric_manager else []
    parts = [layout.components[name] for name in wanted.components if name in layout.components]
    return [*layout.packages, *kernel, *fabric, *parts]


def of_driver(record: Record, wanted: Driver) -> dict[str, str]:
    """Installed packages whose version must be the driver's: those named, and all alike whose version is a driver's."""
    layout = wanted.layout
    must = {*layout.packages, *(name for names in layout.kernel.values() for name in names)} | (
        {layout.fabric_manager} if layout.fabric_manager else set()
    )
    return {
        name: package.version
        for name, package in record.packages.items()
        if name in must
        or (
            name not in layout.others
            and not alike(name, package.source or "", SETTINGS)
            and not _carries_any(name, layout.pinning)
            and alike(name, package.source or "", layout.patterns)
            and versions.of_driver(package.version) is not None
        )
    }


def outdated(record: Record, wanted: Driver) -> dict[str, str]:
    """Packages of the driver in another version than the wanted one, but those that only were left behind."""
    left = leftovers(record, wanted)
    return {
        name: version
        for name, version in of_driver(record, wanted).items()
        if not versions.is_version(version, wanted.version) and name not in left
    }


# --- what another version, or the other kind of module, left behind --------------------------------------------------


@cache
def _carries(template: str) -> re.Pattern[str]:
    """A pattern of names with {branch} or {version} in them, as one that reads both."""
    parts = re.split(r"(\{branch\}|\{version\}|\{kernel\})", template)
    groups = {"{branch}": r"(?P<branch>\d{3})", "{version}": r"(?P<version>\d{3}\.\d+(?:\.\d+)*)"}
    groups["{kernel}"] = r"\d+\.\d.*"
    return re.compile("".join(groups.get(part) or fnmatch.translate(part)[4:-3] for part in parts))


def _carries_any(name: str, templates: Iterable[str]) -> bool:
    return any(_carries(template).fullmatch(name) for template in templates)


def _of_another(name: str, templates: Iterable[str], version: str) -> bool:
    """Whether a name carries another branch or version than that of the driver."""
    own = {"branch": str(layouts.branch_of(version)), "version": versions.upstream(version)}
    for template in templates:
        found = _carries(template).fullmatch(name)
        if found and any(own[word] != text for word, text in found.groupdict().items()):
            return True
    return False


def of_others(record: Record, wanted: Driver) -> set[str]:
    """Packages with another branch or version in their names, or that only others have."""
    layout = wanted.layout
    found = {
        name
        for name, package in record.packages.items()
        if _of_another(name, layout.versioned, wanted.version)
        or (name in layout.foreign and not versions.is_version(package.version, wanted.version))
        or _has_sibling(record, wanted, name)
    }
    found = {name for name in found if not _carries_any(name, layout.pinning)}
    return found - {*layout.packages, *(name for names in layout.kernel.values() for name in names)}


def _has_sibling(record: Record, wanted: Driver, name: str) -> bool:
    """Whether a package of another version lacks the branch in its name that the same part of the wanted version has."""
    sibling = record.packages.get(f"{name}-{layouts.branch_of(wanted.version)}")
    version = record.packages[name].version
    return (
        sibling is not None
        and versions.is_version(sibling.version, wanted.version)
        and versions.of_driver(version) is not None
        and not versions.is_version(version, wanted.version)
    )


def _has_come(record: Record, wanted: Driver) -> bool:
    """Whether the driver, but for what another version left, is the wanted one."""
    others = of_others(record, wanted)
    rest = [version for name, version in of_driver(record, wanted).items() if name not in others]
    return bool(rest) and all(versions.is_version(version, wanted.version) for version in rest)


def leftovers(record: Record, wanted: Driver) -> list[str]:
    """Packages with another branch or version in their names, or that only others have, beside a driver that is the wanted one.

    For a package manager they are other packages, so that they stay after an upgrade, and after a way back. As long as any
    other part of the driver has another version, they are that driver. A pin goes once that of the wanted version is there.
    """
    if not _has_come(record, wanted):
        return []
    pins = [name for name in record.packages if _carries_any(name, wanted.layout.pinning)]
    wrong = pinned_elsewhere(record, wanted)
    return sorted([*of_others(record, wanted), *(wrong if len(pins) > len(wrong) else ())])


def pinned_elsewhere(record: Record, wanted: Driver) -> list[str]:
    """Packages that allow the package manager another branch or version of the driver only."""
    return sorted(
        name for name in record.packages if _of_another(name, wanted.layout.pinning, wanted.version)
    )


def pins(record: Record, wanted: Driver) -> list[Problem]:
    """Nothing on the node contradicts the wanted version."""
    return [
        Problem(
            f"Node '{wanted.node}': package '{name}' pins the driver at another version than {wanted.version}.",
            "Run site.yml, which puts the package for this version in its place, or correct 'nvidia_driver_version'.",
            {"pinned_by": name},
            Cure.PACKAGES,
        )
        for name in pinned_elsewhere(record, wanted)
    ]


def _besides(record: Record, wanted: Driver) -> list[str]:
    """Parts with a branch in their names that are there besides what the driver itself consists of."""
    layout = wanted.layout
    return sorted(
        name
        for name in record.packages
        if _carries_any(name, [*layout.versioned, *layout.pinning]) and not _carries_any(name, layout.own)
    )


def counterparts(record: Record, wanted: Driver) -> list[dict[str, Any]]:
    """What has to come with another branch, since a site has it besides in the branch that is there.

    Returns:
        By 'of' the name of what is there, by 'names' what it can be called now, and by 'version' which it has to have; empty
        where the part has versions of its own.
    """
    change = [] if _has_come(record, wanted) else sorted(of_others(record, wanted))
    parts = [name for name in change if name in _besides(record, wanted)]
    return [
        {
            "of": name,
            "names": layouts.in_another_branch(name, wanted.version),
            "version": wanted.version if versions.of_driver(record.packages[name].version) else "",
        }
        for name in parts
    ] + [
        {"of": name, "names": layouts.in_another_branch(name, wanted.version)[:1], "version": ""}
        for name in pinned_elsewhere(record, wanted)
    ]


def of_own_versions(record: Record, wanted: Driver) -> list[str]:
    """Parts that are there besides, with versions of their own: they stay, and come back with the driver."""
    return [
        name for name in _besides(record, wanted) if versions.of_driver(record.packages[name].version) is None
    ]


def left_behind(record: Record, wanted: Driver) -> list[Problem]:
    """What another version left."""
    return [
        Problem(
            f"Node '{wanted.node}': package '{name}' is left over from another version of the driver.",
            "Run site.yml, which removes it.",
            {"left_over": name},
            Cure.PACKAGES,
        )
        for name in leftovers(record, wanted)
    ]


def of_other_kind(record: Record, wanted: Driver, flavour: str) -> dict[str, str]:
    """Packages that bring another kind of module than the wanted one, with that kind."""
    kinds = wanted.layout.kinds
    right = kinds.get(flavour, frozenset())
    return {
        name: kind
        for kind, names in kinds.items()
        if kind != flavour
        for name in sorted(names - right)
        if name in record.packages
    }


def other_kind(record: Record, wanted: Driver, flavour: str) -> list[Problem]:
    """The other kind of module beside the wanted one: each build for a kernel puts either in the other's place."""
    node, serves = wanted.node, record.kubernetes.joined
    step = "Run site.yml, which removes it."
    if serves:
        step = f"Correct 'nvidia_driver_module_flavour', or {steps.change_driver(node)}."
    return [
        Problem(
            f"Node '{node}': package '{name}' brings the {kind} module, wanted is the {flavour} one alone.",
            step,
            {name: kind},
            Cure.UPGRADE if serves else Cure.PACKAGES,
        )
        for name, kind in of_other_kind(record, wanted, flavour).items()
    ]


# --- versions and holds ----------------------------------------------------------------------------------------------


def installed_versions(record: Record, wanted: Driver) -> list[str]:
    """Driver versions that packages on the node have; more than one is a half-done change."""
    return sorted({versions.of_driver(version) or version for version in of_driver(record, wanted).values()})


def plain(version: str, wanted: str) -> str:
    """A version as messages show it: without the packager's part, unless only that differs."""
    upstream = versions.upstream(version)
    same = upstream == versions.upstream(wanted) and not versions.is_version(version, wanted)
    return version if same else upstream


def in_words(packages: dict[str, str], wanted: str) -> str:
    """Names with versions."""
    return ", ".join(f"'{name}' is {plain(version, wanted)}" for name, version in sorted(packages.items()))


def of_driver_to_hold(record: Record, wanted: Driver) -> set[str]:
    """Packages of the driver, also those with versions of their own."""
    belonging = {*of_driver(record, wanted), *wanted.layout.others} & set(record.packages)
    return (
        belonging
        | kernels.follow_each_other(record)
        | signatures.to_hold(record, wanted)
        | {
            name
            for name, package in record.packages.items()
            if alike(name, package.source or "", HELD_PATTERNS)
            and versions.is_version(package.version, wanted.version)
        }
    )


def to_hold(record: Record, wanted: Driver, of_others: Set[str] = frozenset()) -> set[str]:
    """All packages of a node that nobody's routine upgrade may change, but for those of somebody else."""
    of_driver = of_driver_to_hold(record, wanted) if wanted.owner == MANAGED else set()
    return of_driver | (set(HELD) & set(record.packages)) - of_others


def loose(record: Record, names: set[str]) -> list[str]:
    """Those of these packages that any upgrade may change."""
    return sorted(name for name in names if not record.packages[name].held)


def unheld(record: Record, wanted: Driver) -> list[str]:
    """Packages of the driver that any upgrade may change."""
    return loose(record, of_driver_to_hold(record, wanted))


def not_held(names: list[str], node: str) -> list[Problem]:
    """One problem for all packages that are not held."""
    if not names:
        return []
    return [
        Problem(
            f"Node '{node}': {len(names)} packages are not held and can be changed by any upgrade: {', '.join(names)}.",
            "Run site.yml, or 'apt-mark hold' / 'dnf versionlock add' them.",
            {"not_held": names},
            Cure.HOLD,
        )
    ]


def missing(record: Record, node: str, names: list[str]) -> list[Problem]:
    """Packages that are not installed."""
    return [
        Problem(
            f"Node '{node}': package '{name}' is not installed.",
            "Install it: site.yml.",
            {"missing": name},
            Cure.PACKAGES,
        )
        for name in names
        if name not in record.packages
    ]


def wrong_versions(record: Record, wanted: Packages) -> list[Problem]:
    """Packages of another version than the wanted one."""
    node, found = wanted.node, []
    for name, version in wanted.versions.items():
        package = record.packages.get(name)
        if package is not None and not versions.is_version(package.version, version):
            found.append(
                Problem(
                    f"Node '{node}': package '{name}' is {plain(package.version, version)}, the inventory wants {version}.",
                    f"Correct the version in the inventory, or {steps.change_runtime(node)}."
                    if wanted.kept
                    else "Run site.yml, or correct the version in the inventory.",
                    {name: package.version},
                    Cure.UPGRADE if wanted.kept else Cure.PACKAGES,
                )
            )
    return found


def to_ask_for(record: Record, wanted: Packages) -> dict[str, str]:
    """The versions that a role asks for: on a node that keeps its own, those, also for what is missing of the same set."""
    there = {name: record.packages[name].version for name in wanted.versions if name in record.packages}
    own = {
        name: version
        for name, version in there.items()
        if not versions.is_version(version, wanted.versions[name])
    }
    if not (wanted.kept and own):
        return dict(wanted.versions)
    return {
        name: own.get(name) or (version if name in there else next(iter(own.values())))
        for name, version in wanted.versions.items()
    }


def problems(record: Record, wanted: Packages) -> list[Problem]:
    """Packages of one subject: there, of the wanted version, held."""
    there = {name for name in wanted.versions if name in record.packages}
    return [
        *missing(record, wanted.node, list(wanted.versions)),
        *wrong_versions(record, wanted),
        *not_held(loose(record, there), wanted.node),
    ]
