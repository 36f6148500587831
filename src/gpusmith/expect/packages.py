"""Packages: those of the driver by names and versions, those of other subjects by names alone, and what must be held."""

from __future__ import annotations

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.base import alike

from gpusmith.expect import steps, versions
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


def named(wanted: Driver, flavour: str, fabric_manager: bool) -> list[str]:
    """Packages of the driver that must be there."""
    layout = wanted.layout
    kernel = [layout.kernel[flavour]] if flavour in layout.kernel else []
    fabric = [layout.fabric_manager] if fabric_manager and layout.fabric_manager else []
    return [*layout.packages, *kernel, *fabric]


def of_driver(record: Record, wanted: Driver) -> dict[str, str]:
    """Installed packages whose version must be the driver's: those named, and all alike whose version is a driver's."""
    layout = wanted.layout
    must = {*layout.packages, *layout.kernel.values()} | (
        {layout.fabric_manager} if layout.fabric_manager else set()
    )
    return {
        name: package.version
        for name, package in record.packages.items()
        if name in must
        or (
            name not in layout.others
            and alike(name, package.source or "", layout.patterns)
            and versions.of_driver(package.version) is not None
        )
    }


def outdated(record: Record, wanted: Driver) -> dict[str, str]:
    """Packages of the driver in another version than the wanted one."""
    return {
        name: version
        for name, version in of_driver(record, wanted).items()
        if not versions.is_version(version, wanted.version)
    }


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
    return belonging | {
        name
        for name, package in record.packages.items()
        if alike(name, package.source or "", HELD_PATTERNS)
        and versions.is_version(package.version, wanted.version)
    }


def to_hold(record: Record, wanted: Driver) -> set[str]:
    """All packages of a node that nobody's routine upgrade may change."""
    return of_driver_to_hold(record, wanted) | (set(HELD) & set(record.packages))


def _loose(record: Record, names: set[str]) -> list[str]:
    return sorted(name for name in names if not record.packages[name].held)


def unheld(record: Record, wanted: Driver) -> list[str]:
    """Packages of the driver that any upgrade may change."""
    return _loose(record, of_driver_to_hold(record, wanted))


def holds(record: Record, wanted: Driver) -> list[Problem]:
    """Every package that must be held is."""
    return not_held(_loose(record, to_hold(record, wanted)), wanted.node)


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
        *not_held(_loose(record, there), wanted.node),
    ]
