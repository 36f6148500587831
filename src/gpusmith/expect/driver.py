"""The driver: packages, module, libraries, NVML, services and device nodes are one version and all there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpusmith.data.operands import MANAGED
from gpusmith.expect import (
    devices,
    driver_needs,
    extra_modules,
    fabric,
    files,
    kernels,
    libraries,
    packages,
    parameters,
    services,
    signatures,
    steps,
    taken,
    versions,
)
from gpusmith.expect.layouts import Unmet
from gpusmith.expect.wanted import Driver
from gpusmith.node.facts import RESET_STEP
from gpusmith.probe.record import Record
from gpusmith.problems import Cure, Problem

IDENTITY = ("uuid", "name", "pci", "minor", "memory_mib")
PASSES = frozenset({Cure.WAIT, Cure.LOAD, Cure.SERVICES})
"""What can vanish by itself while services start."""


# --- versions ------------------------------------------------------------------------------------------------------


def _evidence(record: Record, wanted: Driver) -> dict[str, Any]:
    seen = {
        **libraries.seen(record),
        "module file": record.module.installed_version,
        "loaded module": record.module.loaded_version,
        "driver of NVML": record.nvml.driver_version,
    }
    return {
        "wanted": wanted.version,
        "packages": {
            name: packages.plain(version, wanted.version)
            for name, version in packages.of_driver(record, wanted).items()
        },
        **{name.replace(" ", "_"): version for name, version in seen.items()},
    }


def package_versions(record: Record, wanted: Driver, evidence: dict[str, Any]) -> list[Problem]:
    """Packages are there, in the wanted version."""
    node, found = wanted.node, []
    if wanted.layout.demanded:
        names = [
            *driver_needs.must_have(record, wanted),
            *driver_needs.unversioned(record, wanted),
            *fabric.tools(record, wanted),
        ]
        found += packages.missing(record, node, names)
    # One of others may have come by NVIDIA's installer.
    elif not evidence["packages"] and (wanted.owner == MANAGED or not record.module.loaded_version):
        found.append(
            Problem(
                f"Node '{node}': no driver package is installed.",
                "Install it: site.yml.",
                evidence,
                Cure.PACKAGES,
            )
        )
    wrong = packages.outdated(record, wanted)
    if wrong:
        named = packages.in_words(wrong, wanted.version)
        step, cure = libraries.version_step(record, wanted)
        found.append(
            Problem(
                f"Node '{node}': driver package {named}, the inventory wants {wanted.version}.",
                step,
                evidence,
                cure,
            )
        )
    return [*found, *packages.left_behind(record, wanted)]


def loaded_module(record: Record, wanted: Driver, evidence: dict[str, Any]) -> list[Problem]:
    """The module is loaded."""
    module = record.module
    if module.loaded_version is not None:
        return []
    cause = (
        f"Node '{wanted.node}': the driver is not loaded, there is no kernel module 'nvidia' in kernel {record.host.kernel}"
        f" (module file: {module.installed_version or 'none'})"
    )
    step = f"Load it with 'modprobe nvidia' on '{wanted.node}' and read 'journalctl -k' for the reason, or run site.yml."
    cure = Cure.LOAD
    if module.blocked_by:
        cause += f": file '{module.blocked_by}' of an upgrade that was given up keeps it from being loaded"
        step, cure = f"Reboot '{wanted.node}', which takes that file away.", Cure.REBOOT
    if module.installed_version is None:
        cure = Cure.PACKAGES
    return [Problem(f"{cause}.", step, evidence, cure)]


def module_versions(record: Record, wanted: Driver, evidence: dict[str, Any]) -> list[Problem]:
    """Loaded module and module file have the wanted version."""
    node, version, module, found = wanted.node, versions.upstream(wanted.version), record.module, []
    if module.loaded_version not in (None, version):
        found.append(
            Problem(
                f"Node '{node}': the loaded module is {module.loaded_version}, the inventory wants {wanted.version}.",
                "Reload the module or reboot.",
                evidence,
                Cure.REBOOT,
            )
        )
    if module.installed_version not in (None, version):
        step, cure = f"Look at 'dkms status' on '{node}'.", Cure.PERSON
        if packages.outdated(record, wanted):
            step, cure = libraries.version_step(record, wanted)
        found.append(
            Problem(
                f"Node '{node}': the module file is {module.installed_version}, the inventory wants {wanted.version};"
                " the next boot loads that one.",
                step,
                evidence,
                cure,
            )
        )
    if module.installed_version is None and module.loaded_version is not None:
        found.append(
            Problem(
                f"Node '{node}': there is no module file for kernel {record.host.kernel}, so the next boot has no driver.",
                "Look at 'dkms status' and at the kernel's headers on the node, or run site.yml.",
                evidence,
                Cure.PACKAGES,
            )
        )
    return found


def module_flavour(record: Record, wanted: Driver, evidence: dict[str, Any]) -> list[Problem]:
    """The module is the open one or the proprietary one, as the GPUs and the inventory want it."""
    node, own = wanted.node, record.module.flavour
    try:
        kind = driver_needs.flavour(record, wanted)
    except Unmet as error:
        return [Problem(f"Node '{node}': {error.message}", error.hint, evidence)]
    if own in (None, kind):
        return packages.other_kind(record, wanted, kind)
    if record.kubernetes.joined:
        step, cure = (
            f"Correct 'nvidia_driver_module_flavour', or {steps.change_driver(node)}.",
            Cure.UPGRADE,
        )
    elif record.module.loaded_version is not None:
        step, cure = "Reload the module or reboot.", Cure.REBOOT
    else:
        step, cure = "Run site.yml, which installs that module.", Cure.PACKAGES
    return [
        Problem(
            f"Node '{node}': the module is the {own} one, wanted is the {kind} one ('nvidia_driver_module_flavour').",
            step,
            evidence,
            cure,
        )
    ]


def nouveau(record: Record, wanted: Driver, evidence: dict[str, Any]) -> list[Problem]:
    """The free driver does not hold the GPUs."""
    if not record.module.nouveau_loaded:
        return []
    return [
        Problem(
            f"Node '{wanted.node}': module 'nouveau' is loaded.",
            "Reboot it after role nvidia_driver has run, which keeps the module off.",
            evidence,
            Cure.REBOOT,
        )
    ]


def driver_versions(record: Record, wanted: Driver) -> list[Problem]:
    """Package = libraries = module file = loaded module = the inventory's version."""
    evidence = _evidence(record, wanted)
    return [
        *package_versions(record, wanted, evidence),
        *loaded_module(record, wanted, evidence),
        *libraries.files(record, wanted, evidence),
        *libraries.library_versions(record, wanted, evidence),
        *libraries.of_nvml(record, wanted, evidence),
        *module_versions(record, wanted, evidence),
        *libraries.missing_parts(record, wanted, evidence),
        *module_flavour(record, wanted, evidence),
        *nouveau(record, wanted, evidence),
    ]


# --- GPUs ----------------------------------------------------------------------------------------------------------


def nvml(record: Record, node: str) -> list[Problem]:
    """NVML starts, and every GPU answers."""
    if not record.nvml_usable:
        return [
            Problem(
                f"Node '{node}': NVML does not start: {record.nvml.error or 'no reason given'} (code {record.nvml.init_code}).",
                f"Run 'nvidia-smi' on '{node}'; see nodes.driver-versions for the versions.",
                {"nvml_code": record.nvml.init_code, "nvml_error": record.nvml.error},
                Cure.WAIT,
            )
        ]
    # A lost GPU has no handle that could be asked for its address: it is one of those that no other GPU has.
    silent = sorted(
        {gpu.address for gpu in record.pci.gpus} - {gpu.pci for gpu in record.nvml.gpus if gpu.pci}
    )
    place = f" (PCI {' or '.join(silent)})" if silent else ""
    found = [
        Problem(
            f"Node '{node}': {gpu.label}{'' if gpu.pci else place} does not answer: {gpu.error}.",
            RESET_STEP,
            {"gpu": gpu.index, "uuid": gpu.uuid, "pci": gpu.pci or silent, "error": gpu.error},
        )
        for gpu in record.nvml.gpus
        if gpu.error
    ]
    for gpu in record.nvml.gpus:
        unknown = {name: gpu.unreadable[name] for name in IDENTITY if name in gpu.unreadable}
        if unknown and not gpu.error:
            words = "; ".join(f"{name}: {why}" for name, why in unknown.items())
            found.append(
                Problem(
                    f"Node '{node}': {gpu.label} does not tell what it is: {words}.",
                    RESET_STEP,
                    {"gpu": gpu.index, "uuid": gpu.uuid, "unreadable": unknown},
                )
            )
    return found


def counts(record: Record, node: str) -> list[Problem]:
    """PCI, NVML and /dev show the same number of GPUs. How many the inventory wants, only the suite asks."""
    pci, known, minors = len(record.pci.gpus), len(record.nvml.gpus), len(record.dev.gpu_minors)
    if not record.nvml_usable or pci == known == minors:
        return []
    return [
        Problem(
            f"Node '{node}': PCI has {pci} GPUs, NVML {known}, /dev {minors}.",
            f"Look at 'lspci -d 10de:' and 'journalctl -k -g NVRM' on '{node}'.",
            {"pci": pci, "nvml": known, "dev": minors},
            Cure.WAIT,
        )
    ]


# --- all of it -----------------------------------------------------------------------------------------------------


def running(record: Record, wanted: Driver) -> list[Problem]:
    """What must run and answer on a machine that has GPUs."""
    node = wanted.node
    daemon = (
        services.service(record, node, "nvidia-persistenced", services.WHY_PERSISTENCED)
        if wanted.layout.demanded
        else services.persistence(record, node)
    )
    needs_fabric = fabric.needed(record, wanted)
    return [
        *daemon,
        *services.loader(record, node),
        *(fabric.service(record, node) if needs_fabric else []),
        *fabric.modules(record, wanted),
        *devices.missing_nodes(record, node),
        *extra_modules.problems(record, wanted),
        *_silent(record, node),
        *(_joining(record, wanted) if needs_fabric else []),
        *counts(record, node),
    ]


def _silent(record: Record, node: str) -> list[Problem]:
    """GPUs that do not answer. What else they do not tell, no role can change."""
    return [
        problem for problem in nvml(record, node) if not record.nvml_usable or problem.evidence.get("error")
    ]


def _joining(record: Record, wanted: Driver) -> list[Problem]:
    return fabric.joined(record, wanted.node) if fabric.tells_state(fabric.models_of(record, wanted)) else []


def problems(record: Record, wanted: Driver) -> list[Problem]:
    """Every way in which the node's driver is not as wanted: what role nvidia_driver answers for.

    Raises:
        Unmet: no driver can be what the settings ask for.
    """
    driver_needs.must_have(record, wanted)
    found = [
        *driver_versions(record, wanted),
        *kernels.problems(record, wanted),
        *taken.problems(record, wanted.node),
        *signatures.problems(record, wanted),
        *packages.not_held(packages.unheld(record, wanted), wanted.node),
        *of_settings(record, wanted),
    ]
    if record.pci.gpus:
        return found + running(record, wanted)
    # An image is baked without GPUs: nothing can be loaded, and nothing need be.
    absent = Problem(
        f"Node '{wanted.node}': there is no NVIDIA GPU on PCI.",
        f"Look at 'lspci -d 10de:' on '{wanted.node}'.",
    )
    return [*(row for row in found if row.cure not in (Cure.LOAD, Cure.REBOOT)), absent]


def of_settings(record: Record, wanted: Driver) -> list[Problem]:
    """Parameters and files that are not as the inventory sets them: no version of the driver can be blamed for these."""
    return [
        *parameters.problems(record, wanted),
        *files.problems(record, wanted.node, wanted.files),
    ]


def may_pass(found: Iterable[Problem]) -> bool:
    """Whether all problems are of a kind that can vanish by itself while services start."""
    return all(problem.cure in PASSES for problem in found)
