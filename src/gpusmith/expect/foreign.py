"""A driver of somebody else: NVIDIA's installer, sources without a package, a library without a package, packages half gone."""

from __future__ import annotations

from gpusmith.expect import kernels, packages, versions
from gpusmith.expect.wanted import Driver
from gpusmith.probe.record import Record
from gpusmith.problems import Problem
from gpusmith.wording import shorten

BY_INSTALLER = "Remove it with the installer that brought it ('nvidia-uninstall'), then run site.yml."
"""What is somebody else's goes by his own means."""


def installer(record: Record, node: str) -> list[Problem]:
    """Files of NVIDIA's installer: what it brings lies over the files of packages."""
    return [
        Problem(
            f"Node '{node}': '{path}' is of NVIDIA's installer ('.run'), whose driver no package manager knows.",
            BY_INSTALLER,
            {"installer": path},
        )
        for path in record.foreign.installer
    ]


def sources(record: Record, node: str) -> list[Problem]:
    """Sources of a module that no installed package has: DKMS builds it for the next kernel, in the place of the right one."""
    # A package that was interrupted while DKMS compiled owns its sources; the role finishes it.
    if any(kernels.DKMS.fullmatch(name) for name in record.half_packages):
        return []
    owned = {
        versions.upstream(package.version)
        for name, package in record.packages.items()
        if kernels.DKMS.fullmatch(name)
    }
    return [
        Problem(
            f"Node '{node}': '{folder}' has sources of driver {version}, of no installed package; DKMS builds them anew.",
            f"Look at 'dkms status' on '{node}' for who added it, and have that removed as it came.",
            {"sources": folder, "version": version},
        )
        for folder, version in record.foreign.sources.items()
        if version not in owned
    ]


def library(record: Record, wanted: Driver) -> list[Problem]:
    """A library of the driver where no package of it is installed."""
    found = (record.library.files or {}).get("nvidia-ml")
    path = found.path if found is not None and record.library.nvml_version else None
    if path is None or packages.of_driver(record, wanted):
        return []
    return [
        Problem(
            f"Node '{wanted.node}': library '{path}' is there, and no package of the driver.",
            BY_INSTALLER,
            {"library": path},
        )
    ]


def module(record: Record, wanted: Driver) -> list[Problem]:
    """A file of the driver's module where no package of the driver is installed."""
    version = record.module.installed_version
    if version is None or packages.of_driver(record, wanted) or kernels.built(record):
        return []
    return [
        Problem(
            f"Node '{wanted.node}': module 'nvidia' {version} is installed, and no package of the driver.",
            BY_INSTALLER,
            {"module": version},
        )
    ]


def halves(record: Record, node: str) -> list[Problem]:
    """Packages of the driver that a broken installation or removal left."""
    return [
        Problem(
            f"Node '{node}': package '{name}' is {state}: an installation or a removal of it was broken off.",
            f"Run site.yml, which finishes it. If it stays so, run '{finishing(record)}' on '{node}', read what it says, and run"
            " site.yml again.",
            {"half": name, "state": state},
        )
        for name, state in record.half_packages.items()
    ]


def half_notes(record: Record) -> list[str]:
    """The same for who runs site.yml, which finishes them before it installs."""
    return [
        f"package '{name}' was {state} when the run began: an installation or a removal of it had been broken off. If the run did"
        f" not finish it, run '{finishing(record)}' there, then run again"
        for name, state in record.half_packages.items()
    ]


def replaced(record: Record, version: str) -> list[str]:
    """Before a machine joins: packages of another driver, of whatever repository, that give way to the wanted version."""
    wanted = versions.upstream(version)
    found = {name: versions.of_driver(package.version) for name, package in record.packages.items()}
    others = {name: each for name, each in sorted(found.items()) if each not in (None, wanted)}
    if record.kubernetes.joined or not others:
        return []
    drivers = " and ".join(versions.newest_first(filter(None, others.values())))
    told = f"driver {drivers} is installed ({shorten(list(others))}) and gives way to {wanted}"
    return [f"{told}; if somebody else manages it, leave the machine out with -l"]


def finishing(record: Record) -> str:
    """With what a person finishes what the package manager began: of two versions dnf keeps the newer one."""
    return "dnf remove --duplicates" if record.package_database == "rpm" else "dpkg --configure -a"


def problems(record: Record, wanted: Driver) -> list[Problem]:
    """All of it."""
    node = wanted.node
    return [
        *installer(record, node),
        *sources(record, node),
        *library(record, wanted),
        *halves(record, node),
    ]
