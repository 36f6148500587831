"""The driver's libraries, firmware and tools: files that packages brought, and what hides them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.base import alike

from gpusmith.expect import packages, steps, versions
from gpusmith.expect.wanted import Driver
from gpusmith.probe.record import Record
from gpusmith.problems import Cure, Problem

LIBRARIES = {"NVML library": "nvidia-ml", "CUDA library": "cuda"}
CARRIERS = {
    "nvidia-ml": ("libnvidia-ml1", "libnvidia-ml", "libnvidia-compute*"),
    "cuda": ("libcuda1", "nvidia-driver-cuda-libs", "libnvidia-compute*"),
}
"""Packages that bring a library, in all layouts, as shell patterns."""


def seen(record: Record) -> dict[str, str | None]:
    """Versions by library."""
    return {"NVML library": record.library.nvml_version, "CUDA library": record.library.cuda_version}


def repair(record: Record, wanted: Driver, carriers: tuple[str, ...] = ()) -> tuple[str, Cure]:
    """What brings a file of the driver's packages back.

    Package managers install a package once: if it has the wanted version and only its file is gone, no role does anything.
    """
    there = packages.of_driver(record, wanted)
    if not there or (carriers and not any(alike(name, "", carriers) for name in there)):
        return "Install the driver's packages: site.yml.", Cure.PACKAGES
    if packages.outdated(record, wanted):
        return version_step(record, wanted)
    return (
        f"'dpkg -V' or 'rpm -V' on '{wanted.node}' names changed files of packages: install that package again.",
        Cure.PERSON,
    )


def version_step(record: Record, wanted: Driver) -> tuple[str, Cure]:
    """How a node gets another version: a serving one never by site.yml."""
    if record.kubernetes.joined:
        return (
            f"Correct 'nvidia_driver_version', or {steps.upgrade_driver(wanted.node, wanted.version)}.",
            Cure.UPGRADE,
        )
    return "Run site.yml, which installs that version, or correct 'nvidia_driver_version'.", Cure.PACKAGES


def _shadowing(record: Record, name: str) -> str:
    """Words for a library that hides others of its name; empty for one that does not."""
    file = (record.library.files or {}).get(LIBRARIES[name])
    if file is None or not file.shadows:
        return ""
    return f"; programs get '{file.path}', which shadows {', '.join(map(repr, file.shadows))}"


def files(record: Record, wanted: Driver, evidence: Mapping[str, Any]) -> list[Problem]:
    """A file's name tells its version, not that it can be loaded, nor that it is the driver's."""
    node = wanted.node
    if record.library.files is None:
        cause = f"Node '{node}': the driver's library files could not be read: {'; '.join(record.errors) or 'no reason given'}."
        return [Problem(cause, f"Look at 'ldconfig -p' on '{node}'.", evidence)]
    found = []
    for name, key in LIBRARIES.items():
        file = record.library.files[key]
        details = {
            **evidence,
            f"{key}_file": {"path": file.path, "fault": file.fault, "shadows": list(file.shadows)},
        }
        if file.path is None:
            step, cure = repair(record, wanted, CARRIERS[key])
            found.append(Problem(f"Node '{node}': the {name} is missing.", step, details, cure))
            continue
        if file.fault is not None:
            found.append(
                Problem(
                    f"Node '{node}': the {name} '{file.path}' {file.fault}, so no program can load it{_shadowing(record, name)}.",
                    f"'dpkg -V' or 'rpm -V' on '{node}' names changed files of packages: install that package again.",
                    details,
                )
            )
        if seen(record)[name] is None:
            shadows = f", and shadows {', '.join(map(repr, file.shadows))}" if file.shadows else ""
            found.append(
                Problem(
                    f"Node '{node}': programs get '{file.path}' as {name}, which is no file of the driver{shadows}.",
                    f"Find out who put it there ('dpkg -S' or 'rpm -qf'), remove it and run 'ldconfig' on '{node}'.",
                    details,
                )
            )
    return found


def library_versions(record: Record, wanted: Driver, evidence: Mapping[str, Any]) -> list[Problem]:
    """Libraries, loaded module and inventory have one version."""
    node, version, loaded = wanted.node, versions.upstream(wanted.version), record.module.loaded_version
    found = []
    for name, own in seen(record).items():
        if own is None:
            continue  # files() has said which
        if loaded is not None and own != loaded:
            cure = Cure.REBOOT if own == version else _of_library(record, wanted)[1]
            found.append(
                Problem(
                    f"Node '{node}': driver/library mismatch, the {name} is {own} and the loaded module {loaded}"
                    f"{_shadowing(record, name)}.",
                    "Run site.yml, which installs the wanted version."
                    if cure is Cure.PACKAGES
                    else "Drain the node and reload the module or reboot, so that both are of one version.",
                    evidence,
                    cure,
                )
            )
        elif own != version:
            step, cure = _of_library(record, wanted)
            found.append(
                Problem(
                    f"Node '{node}': the {name} is {own}, the inventory wants {wanted.version}{_shadowing(record, name)}.",
                    step,
                    evidence,
                    cure,
                )
            )
    return found


def of_nvml(record: Record, wanted: Driver, evidence: Mapping[str, Any]) -> list[Problem]:
    """NVML, once it runs, tells the version of the driver that it talks to: the loaded module's."""
    told, loaded = record.nvml.driver_version, record.module.loaded_version
    # A loaded module that is not the wanted one is said elsewhere.
    if not record.nvml_usable or told == loaded or loaded != versions.upstream(wanted.version):
        return []
    said = f"says that the driver is {told}" if told else "does not tell the driver's version"
    return [
        Problem(
            f"Node '{wanted.node}': NVML {said}, the loaded module is {loaded}.",
            f"Compare what 'nvidia-smi' on '{wanted.node}' shows with '/sys/module/nvidia/version': the library that answers is"
            " not that of the driver's packages.",
            evidence,
        )
    ]


def _of_library(record: Record, wanted: Driver) -> tuple[str, Cure]:
    if packages.outdated(record, wanted):
        return version_step(record, wanted)
    return repair(record, wanted)


def missing_parts(record: Record, wanted: Driver, evidence: Mapping[str, Any]) -> list[Problem]:
    """What the next start of a GPU and containers need of the driver."""
    node, module = wanted.node, record.module
    found = []
    if module.firmware == () and module.flavour == "open":
        step, cure = repair(record, wanted)
        found.append(
            Problem(
                f"Node '{node}': the open module's firmware is missing from"
                f" /lib/firmware/nvidia/{module.loaded_version or module.installed_version};"
                " GPUs cannot be initialised again without it.",
                step,
                evidence,
                cure,
            )
        )
    if record.library.nvidia_smi is None and evidence["packages"]:
        step, cure = repair(record, wanted)
        found.append(
            Problem(
                f"Node '{node}': program 'nvidia-smi' is missing, so containers get none either.",
                step,
                evidence,
                cure,
            )
        )
    return found
