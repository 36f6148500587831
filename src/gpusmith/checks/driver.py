"""Checks of the nodes tier on the driver: packages, libraries, loaded module, NVML; which one it is, and that it stays."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gpusmith.findings import CannotAsk
from gpusmith.node.facts import RESET_STEP, NodeFacts
from gpusmith.problems import Problem

DRIVER_PACKAGES = ("nvidia-driver-cuda", "nvidia-smi", "libcuda1", "libnvidia-ml1", "nvidia-driver")
"""Packages that carry the driver's libraries and tools; which are there depends on layout and distribution."""
DRIVER_PART = re.compile(r"(libnvidia-|firmware-nvidia-|nvidia-firmware-|nvidia-kernel-|nvidia-open-kernel-)")
DRIVER_VERSION = re.compile(r"\d{3}\.\d")
"""Other parts of it: one of another driver would be loaded beside it. Helpers (nvidia-modprobe) may have their own versions."""
HELD_ALWAYS = (
    "containerd.io",
    "kubelet",
    "kubeadm",
    "kubectl",
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
)
LIBRARIES = {"NVML library": "nvidia-ml", "CUDA library": "cuda"}
IDENTITY = ("uuid", "name", "pci", "minor", "memory_mib")


def upstream(version: str) -> str:
    """A package version without epoch and revision: '580.178.04' of '1:580.178.04-1'."""
    return version.rpartition(":")[2].partition("-")[0]


def mentions(version: str, wanted: str) -> bool:
    """Whether a package's version is a driver's, whatever its packager appended."""
    plain = upstream(version)
    return plain == wanted or plain.startswith((wanted + "+", wanted + "~", wanted + "."))


def simulation_witnesses(facts: NodeFacts) -> list[Problem]:
    """The inventory and the loaded library, two independent witnesses, must agree."""
    node, says, marked = facts.host.name, facts.host.simulated, facts.record.library.simulated
    evidence = {"inventory_simulated": says, "library_simulated": marked}
    if marked is None:
        return [
            Problem(
                f"Node '{node}': the NVIDIA library cannot be loaded, so nobody confirms that its GPUs are"
                f" {'simulated' if says else 'real'}.",
                "Install the driver: ansible-playbook site.yml.",
                evidence,
            )
        ]
    if marked != says:
        said, found = ("simulated", "real") if says else ("real", "simulated")
        return [
            Problem(
                f"Node '{node}': the inventory says its GPUs are {said}, but the loaded library is that of {found} ones.",
                f"Correct 'gpusmith_simulated' of '{node}' in the inventory, or find out who installed that library.",
                evidence,
            )
        ]
    return []


def _driver_files(facts: NodeFacts, evidence: Mapping[str, Any]) -> list[Problem]:
    """What the next boot, the next start of a GPU and containers need of the driver."""
    record, node = facts.record, facts.host.name
    problems: list[Problem] = []
    if record.module.installed_version is None and record.module.loaded_version is not None:
        problems.append(
            Problem(
                f"Node '{node}': there is no module file for kernel {record.host.kernel}, so the next boot has no driver.",
                "Look at 'dkms status' and at the kernel's headers on the node, or run site.yml.",
                evidence,
            )
        )
    if record.module.firmware == () and record.module.flavour == "open":
        problems.append(
            Problem(
                f"Node '{node}': the open module's firmware is missing from"
                f" /lib/firmware/nvidia/{record.module.loaded_version or record.module.installed_version};"
                " GPUs cannot be initialised again without it.",
                "Install the driver's packages of that version: site.yml.",
                evidence,
            )
        )
    if record.library.nvidia_smi is None and evidence["packages"]:
        problems.append(
            Problem(
                f"Node '{node}': program 'nvidia-smi' is missing, so containers get none either.",
                "Install the driver's packages: site.yml.",
                evidence,
            )
        )
    return problems


def _shadowing(facts: NodeFacts, name: str) -> str:
    """Words for a library that hides others of its name; empty for one that does not."""
    file = (facts.record.library.files or {}).get(LIBRARIES[name])
    if file is None or not file.shadows:
        return ""
    return f"; programs get '{file.path}', which shadows {', '.join(map(repr, file.shadows))}"


def _library_files(facts: NodeFacts, evidence: Mapping[str, Any]) -> list[Problem]:
    """A file's name tells its version, not that it can be loaded, nor that it is the driver's."""
    record, node = facts.record, facts.host.name
    if record.library.files is None:
        cause = f"Node '{node}': the driver's library files could not be read: {'; '.join(record.errors) or 'no reason given'}."
        return [Problem(cause, f"Look at 'ldconfig -p' on '{node}'.", evidence)]
    problems = []
    versions = {"NVML library": record.library.nvml_version, "CUDA library": record.library.cuda_version}
    for name, key in LIBRARIES.items():
        file = record.library.files[key]
        details = {
            **evidence,
            f"{key}_file": {"path": file.path, "fault": file.fault, "shadows": list(file.shadows)},
        }
        if file.path is None:
            cause = f"Node '{node}': the {name} is missing."
            problems.append(Problem(cause, "Install the driver's packages: site.yml.", details))
            continue
        if file.fault is not None:
            problems.append(
                Problem(
                    f"Node '{node}': the {name} '{file.path}' {file.fault}, so no program can load it{_shadowing(facts, name)}.",
                    f"'dpkg -V' or 'rpm -V' on '{node}' names changed files of packages: install that package again.",
                    details,
                )
            )
        if versions[name] is None:
            shadows = f", and shadows {', '.join(map(repr, file.shadows))}" if file.shadows else ""
            problems.append(
                Problem(
                    f"Node '{node}': programs get '{file.path}' as {name}, which is no file of the driver{shadows}.",
                    f"Find out who put it there ('dpkg -S' or 'rpm -qf'), remove it and run 'ldconfig' on '{node}'.",
                    details,
                )
            )
    return problems


def driver_versions(facts: NodeFacts) -> list[Problem]:
    """Package = libraries = module file = loaded module = the inventory's version."""
    record, wanted, node = facts.record, facts.host.driver_version, facts.host.name
    packages = {
        name: upstream(package.version)
        for name, package in record.packages.items()
        if name in DRIVER_PACKAGES
        or (DRIVER_PART.match(name) and DRIVER_VERSION.match(upstream(package.version)))
    }
    seen = {
        "NVML library": record.library.nvml_version,
        "CUDA library": record.library.cuda_version,
        "module file": record.module.installed_version,
        "loaded module": record.module.loaded_version,
    }
    evidence = {
        "wanted": wanted,
        "packages": packages,
        **{name.replace(" ", "_"): version for name, version in seen.items()},
    }
    problems: list[Problem] = []
    if not packages:
        problems.append(
            Problem(
                f"Node '{node}': no driver package is installed.",
                "Install it: ansible-playbook site.yml.",
                evidence,
            )
        )
    wrong = {name: version for name, version in packages.items() if not mentions(version, wanted)}
    if wrong:
        named = ", ".join(f"'{name}' is {version}" for name, version in sorted(wrong.items()))
        problems.append(
            Problem(
                f"Node '{node}': driver package {named}, the inventory wants {wanted}.",
                "Change the driver with playbooks/upgrade_driver.yml, or correct 'nvidia_driver_version'.",
                evidence,
            )
        )
    if record.module.loaded_version is None:
        problems.append(
            Problem(
                f"Node '{node}': the driver is not loaded, there is no kernel module 'nvidia' in kernel {record.host.kernel}"
                f" (module file: {record.module.installed_version or 'none'}).",
                f"Load it with 'modprobe nvidia' on '{node}' and read 'journalctl -k' for the reason, or run site.yml.",
                evidence,
            )
        )
    problems.extend(_library_files(facts, evidence))
    libraries = {name: seen[name] for name in ("NVML library", "CUDA library")}
    loaded = record.module.loaded_version
    for name, version in libraries.items():
        if version is None:
            continue  # _library_files has said which
        if loaded is not None and version != loaded:
            problems.append(
                Problem(
                    f"Node '{node}': driver/library mismatch, the {name} is {version} and the loaded module {loaded}"
                    f"{_shadowing(facts, name)}.",
                    "Drain the node and reload the module or reboot, so that both are of one version.",
                    evidence,
                )
            )
        elif version != wanted:
            problems.append(
                Problem(
                    f"Node '{node}': the {name} is {version}, the inventory wants {wanted}{_shadowing(facts, name)}.",
                    "Use playbooks/upgrade_driver.yml.",
                    evidence,
                )
            )
    if loaded is not None and loaded != wanted:
        problems.append(
            Problem(
                f"Node '{node}': the loaded module is {loaded}, the inventory wants {wanted}.",
                "Reload the module or reboot.",
                evidence,
            )
        )
    if record.module.installed_version not in (None, wanted):
        problems.append(
            Problem(
                f"Node '{node}': the module file is {record.module.installed_version}, the inventory wants {wanted};"
                " the next boot loads that one.",
                "Look at 'dkms status' on the node, or run site.yml.",
                evidence,
            )
        )
    problems.extend(_driver_files(facts, evidence))
    if record.module.nouveau_loaded:
        problems.append(
            Problem(
                f"Node '{node}': module 'nouveau' is loaded.",
                "Run site.yml, which keeps it off, then reboot.",
                evidence,
            )
        )
    return problems


def nvml(facts: NodeFacts) -> list[Problem]:
    """NVML starts, and every GPU answers."""
    record, node = facts.record, facts.host.name
    if not record.nvml_usable:
        return [
            Problem(
                f"Node '{node}': NVML does not start: {record.nvml.error or 'no reason given'} (code {record.nvml.init_code}).",
                f"Run 'nvidia-smi' on '{node}'; see nodes.driver-versions for the versions.",
                {"nvml_code": record.nvml.init_code, "nvml_error": record.nvml.error},
            )
        ]
    # A lost GPU has no handle that could be asked for its address: it is one of those that no other GPU has.
    silent = sorted(
        {gpu.address for gpu in record.pci.gpus} - {gpu.pci for gpu in record.nvml.gpus if gpu.pci}
    )
    place = f" (PCI {' or '.join(silent)})" if silent else ""
    problems = [
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
            problems.append(
                Problem(
                    f"Node '{node}': {gpu.label} does not tell what it is: {words}.",
                    RESET_STEP,
                    {"gpu": gpu.index, "uuid": gpu.uuid, "unreadable": unknown},
                )
            )
    return problems


def holds(facts: NodeFacts) -> list[Problem]:
    """Nobody's routine upgrade may change these."""
    record, node, wanted = facts.record, facts.host.name, facts.host.driver_version
    driver = [
        name
        for name, package in record.packages.items()
        if name.startswith(("nvidia-", "libnvidia-", "libcuda")) and mentions(package.version, wanted)
    ]
    expected = sorted({*driver, *(name for name in HELD_ALWAYS if name in record.packages)})
    free = [name for name in expected if not record.packages[name].held]
    if not expected:
        raise CannotAsk(f"Node '{node}' has none of the packages; see nodes.driver-versions.")
    if not free:
        return []
    return [
        Problem(
            f"Node '{node}': {len(free)} packages are not held and can be changed by any upgrade: {', '.join(free)}.",
            "Run site.yml, or 'apt-mark hold' / 'dnf versionlock add' them.",
            {"not_held": free},
        )
    ]
