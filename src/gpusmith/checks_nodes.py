"""Checks of the nodes tier: pure functions over one probe record.

Each returns its problems (an empty list is a pass) or raises NotAsked. Causes name node, GPU and reason.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from gpusmith import checks_devices, checks_health
from gpusmith.findings import CannotAsk, NotApplicable, Problem
from gpusmith.node_facts import RESET_STEP, NodeCheck, NodeFacts
from gpusmith.record import Record

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


def upstream(version: str) -> str:
    """A package version without epoch and revision: '580.178.04' of '1:580.178.04-1'."""
    return version.rpartition(":")[2].partition("-")[0]


def _mentions(version: str, wanted: str) -> bool:
    plain = upstream(version)
    return plain == wanted or plain.startswith((wanted + "+", wanted + "~", wanted + "."))


def simulation_witnesses(facts: NodeFacts) -> list[Problem]:
    """The inventory and the loaded library, two independent witnesses, must agree."""
    node, says, marked = facts.host.name, facts.host.simulated, facts.record.simulated
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


def identity(facts: NodeFacts) -> list[Problem]:
    """The machine that answers is the one whose Node the inventory means, else a wrong one is drained and judged."""
    host, seen = facts.host, facts.record.node_name
    if seen is None:
        raise CannotAsk(
            f"Node '{host.name}' has not joined a cluster; see nodes.services and cluster.node-ready."
        )
    address = str(host.variables.get("ansible_host") or host.name)
    evidence = {"node_name": seen, "wanted": host.node_name, "address": address}
    same = sorted(name for name, row in facts.fleet.items() if name != host.name and row.node_name == seen)
    if seen == host.node_name:
        return [
            Problem(
                f"Node '{host.name}': host '{name}' leads to it as well: both are node '{seen}' of the cluster.",
                f"Correct 'ansible_host' of '{name}' in the inventory.",
                {**evidence, "same_node": name},
            )
            for name in same
        ]
    cause = f"Node '{host.name}': the machine at its address '{address}' is node '{seen}' of the cluster, not '{host.node_name}'"
    wrong = [host.name]
    swapped = [
        name for name, row in facts.fleet.items() if name.lower() == seen and row.node_name == host.node_name
    ]
    if swapped:
        wrong += swapped
        cause += f": the addresses of '{host.name}' and '{swapped[0]}' are swapped"
    elif same:
        cause += f", and is also host {' and '.join(map(repr, same))}"
    step = f"Correct 'ansible_host' of {' and '.join(map(repr, wrong))} in the inventory before anything is done to these nodes."
    return [Problem(f"{cause}.", step, evidence)]


def _driver_files(facts: NodeFacts, evidence: Mapping[str, Any]) -> list[Problem]:
    """What the next boot, the next start of a GPU and containers need of the driver."""
    record, node = facts.record, facts.host.name
    problems: list[Problem] = []
    if record.module_installed is None and record.module_loaded is not None:
        problems.append(
            Problem(
                f"Node '{node}': there is no module file for kernel {record.kernel}, so the next boot has no driver.",
                "Look at 'dkms status' and at the kernel's headers on the node, or run site.yml.",
                evidence,
            )
        )
    if record.firmware == () and record.module_flavour == "open":
        problems.append(
            Problem(
                f"Node '{node}': the open module's firmware is missing from"
                f" /lib/firmware/nvidia/{record.module_loaded or record.module_installed};"
                " GPUs cannot be initialised again without it.",
                "Install the driver's packages of that version: site.yml.",
                evidence,
            )
        )
    if record.nvidia_smi is None and evidence["packages"]:
        problems.append(
            Problem(
                f"Node '{node}': program 'nvidia-smi' is missing, so containers get none either.",
                "Install the driver's packages: site.yml.",
                evidence,
            )
        )
    return problems


LIBRARIES = {"NVML library": "nvidia-ml", "CUDA library": "cuda"}


def _shadowing(facts: NodeFacts, name: str) -> str:
    """Words for a library that hides others of its name; empty for one that does not."""
    file = (facts.record.library_files or {}).get(LIBRARIES[name])
    if file is None or not file.shadows:
        return ""
    return f"; programs get '{file.path}', which shadows {', '.join(map(repr, file.shadows))}"


def _library_files(facts: NodeFacts, evidence: Mapping[str, Any]) -> list[Problem]:
    """A file's name tells its version, not that it can be loaded, nor that it is the driver's."""
    record, node = facts.record, facts.host.name
    if record.library_files is None:
        cause = f"Node '{node}': the driver's library files could not be read: {'; '.join(record.errors) or 'no reason given'}."
        return [Problem(cause, f"Look at 'ldconfig -p' on '{node}'.", evidence)]
    problems = []
    versions = {"NVML library": record.nvml_library, "CUDA library": record.cuda_library}
    for name, key in LIBRARIES.items():
        file = record.library_files[key]
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
        "NVML library": record.nvml_library,
        "CUDA library": record.cuda_library,
        "module file": record.module_installed,
        "loaded module": record.module_loaded,
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
    wrong = {name: version for name, version in packages.items() if not _mentions(version, wanted)}
    if wrong:
        named = ", ".join(f"'{name}' is {version}" for name, version in sorted(wrong.items()))
        problems.append(
            Problem(
                f"Node '{node}': driver package {named}, the inventory wants {wanted}.",
                "Change the driver with playbooks/upgrade_driver.yml, or correct 'nvidia_driver_version'.",
                evidence,
            )
        )
    if record.module_loaded is None:
        problems.append(
            Problem(
                f"Node '{node}': the driver is not loaded, there is no kernel module 'nvidia' in kernel {record.kernel}"
                f" (module file: {record.module_installed or 'none'}).",
                f"Load it with 'modprobe nvidia' on '{node}' and read 'journalctl -k' for the reason, or run site.yml.",
                evidence,
            )
        )
    problems.extend(_library_files(facts, evidence))
    libraries = {name: seen[name] for name in ("NVML library", "CUDA library")}
    loaded = record.module_loaded
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
    if record.module_installed not in (None, wanted):
        problems.append(
            Problem(
                f"Node '{node}': the module file is {record.module_installed}, the inventory wants {wanted};"
                " the next boot loads that one.",
                "Look at 'dkms status' on the node, or run site.yml.",
                evidence,
            )
        )
    problems.extend(_driver_files(facts, evidence))
    if record.nouveau_loaded:
        problems.append(
            Problem(
                f"Node '{node}': module 'nouveau' is loaded.",
                "Run site.yml, which keeps it off, then reboot.",
                evidence,
            )
        )
    return problems


IDENTITY = ("uuid", "name", "pci", "minor", "memory_mib")


def nvml(facts: NodeFacts) -> list[Problem]:
    """NVML starts, and every GPU answers."""
    record, node = facts.record, facts.host.name
    if not record.nvml_usable:
        return [
            Problem(
                f"Node '{node}': NVML does not start: {record.nvml_error or 'no reason given'} (code {record.nvml_code}).",
                f"Run 'nvidia-smi' on '{node}'; see nodes.driver-versions for the versions.",
                {"nvml_code": record.nvml_code, "nvml_error": record.nvml_error},
            )
        ]
    # A lost GPU has no handle that could be asked for its address: it is one of those that no other GPU has.
    silent = sorted({gpu.address for gpu in record.pci_gpus} - {gpu.pci for gpu in record.gpus if gpu.pci})
    place = f" (PCI {' or '.join(silent)})" if silent else ""
    problems = [
        Problem(
            f"Node '{node}': {gpu.label}{'' if gpu.pci else place} does not answer: {gpu.error}.",
            RESET_STEP,
            {"gpu": gpu.index, "uuid": gpu.uuid, "pci": gpu.pci or silent, "error": gpu.error},
        )
        for gpu in record.gpus
        if gpu.error
    ]
    for gpu in record.gpus:
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


def _usual_addresses(facts: NodeFacts) -> set[str]:
    """PCI addresses that all other nodes of the model with the right number of GPUs agree on."""
    others = [
        frozenset(gpu.address for gpu in row.pci_gpus)
        for name, row in facts.fleet.items()
        if name != facts.host.name and len(row.pci_gpus) == facts.host.gpu_count
    ]
    return set(others[0]) if others and len(set(others)) == 1 else set()


def _count_differences(facts: NodeFacts) -> list[str]:
    """The GPUs that are not on PCI, in NVML and in /dev alike."""
    record, wanted = facts.record, facts.host.gpu_count
    known = {gpu.pci for gpu in record.gpus if gpu.pci}
    drivers = {gpu.address: gpu.driver for gpu in record.pci_gpus}
    named: list[str] = []
    if record.nvml_usable:
        for address in sorted(drivers.keys() - known):
            bound = drivers[address]
            taken = f" and has driver '{bound}'" if bound not in (None, "nvidia") else ""
            named.append(f"the GPU at PCI {address} is unknown to NVML{taken}")
    for gpu in record.gpus:
        if gpu.pci is not None and gpu.pci not in drivers:
            named.append(f"{gpu.label} is not on the PCI bus")
        if gpu.minor is not None and gpu.minor not in record.minors:
            named.append(f"{gpu.label} has no device node /dev/nvidia{gpu.minor}")
    unknown = sorted(set(record.minors) - {gpu.minor for gpu in record.gpus})
    if record.nvml_usable and unknown:
        named.extend(f"/dev/nvidia{minor} belongs to no GPU that NVML knows" for minor in unknown)
    if len(drivers) < wanted:
        named.append(
            f"{wanted - len(drivers)} of {wanted} GPUs are missing on the PCI bus"
            f" (present: {', '.join(sorted(drivers)) or 'none'})"
        )
        named.extend(
            f"none at PCI {address}, where others of its model have one"
            for address in sorted(_usual_addresses(facts) - drivers.keys())
        )
    if not record.nvml_usable:
        named.append(f"NVML does not start: {record.nvml_error}")
    return named


def _identity_problems(facts: NodeFacts) -> list[Problem]:
    """Every UUID once, on this node and among all nodes."""
    node = facts.host.name
    own = Counter(gpu.uuid for gpu in facts.record.gpus if gpu.uuid)
    problems = [
        Problem(
            f"Node '{node}': {uuid} is the UUID of {count} GPUs.",
            f"Compare 'nvidia-smi -L' with 'lspci -d 10de:' on '{node}'; reload the driver or reboot.",
            {"uuid": uuid, "count": count},
        )
        for uuid, count in own.items()
        if count > 1
    ]
    for name, other in facts.fleet.items():
        shared = sorted(own.keys() & {gpu.uuid for gpu in other.gpus})
        if name != node and shared:
            problems.append(
                Problem(
                    f"Node '{node}': its GPUs are also those of node '{name}': both names lead to one machine.",
                    f"Correct 'ansible_host' of '{node}' or '{name}' in the inventory.",
                    {"shared_with": name, "uuids": shared},
                )
            )
    return problems


def gpu_count(facts: NodeFacts) -> list[Problem]:
    """PCI = NVML = /dev = inventory, by number and one by one."""
    record, node, wanted = facts.record, facts.host.name, facts.host.gpu_count
    counts = {
        "inventory": wanted,
        "pci": len(record.pci_gpus),
        "nvml": len(record.gpus),
        "dev": len(record.minors),
    }
    others = [*_identity_problems(facts), *checks_devices.device_nodes(facts)]
    # A GPU that does not answer tells neither address nor minor; nodes.nvml names it.
    answer = not any(gpu.error for gpu in record.gpus)
    named = _count_differences(facts)
    if len(set(counts.values())) == 1 and not (answer and named):
        return others
    seen = f"{counts['pci']} on PCI, {counts['nvml']} in NVML, {counts['dev']} in /dev, {wanted} in the inventory"
    evidence = {
        **counts,
        "pci_addresses": sorted(gpu.address for gpu in record.pci_gpus),
        "minors": list(record.minors),
        "uuids": [gpu.uuid for gpu in record.gpus],
    }
    differ = Problem(
        f"Node '{node}': GPUs differ: {seen}; {'; '.join(named) or 'none of them can be named'}.",
        f"Look at 'lspci -d 10de:' and 'journalctl -k -g NVRM' on '{node}';"
        " a board that PCI does not show is a matter for the machine's vendor, 'nvidia-modprobe -c MINOR' makes a device node.",
        evidence,
    )
    return [differ, *others]


def gpu_model(facts: NodeFacts) -> list[Problem]:
    """PCI id, name and memory are the model's."""
    record, node, model = facts.record, facts.host.name, facts.model
    if model is None:
        return [
            Problem(
                f"Node '{node}': GPU model '{facts.host.gpu_model}' is not in data/gpus.yml: there is nothing to compare with.",
                "Correct 'gpusmith_gpu_model' in the inventory, or add the model with its source.",
            )
        ]
    if not record.pci_gpus and not record.gpus:
        raise CannotAsk(f"Node '{node}' shows no GPU; see nodes.gpu-count.")
    problems = [
        Problem(
            f"Node '{node}': {record.gpu_at(gpu.address)} has PCI id {gpu.device_id}, '{model.key}' has {model.pci_device_id}.",
            "Correct 'gpusmith_gpu_model' in the inventory, or ask who changed the board.",
            {"pci": gpu.address, "device_id": gpu.device_id},
        )
        for gpu in record.pci_gpus
        if gpu.device_id.lower() != model.pci_device_id
    ]
    for gpu in record.gpus:
        if gpu.name is not None and gpu.name != model.name:
            problems.append(
                Problem(
                    f"Node '{node}': {gpu.label} is a '{gpu.name}', the inventory says '{model.name}'.",
                    "Correct 'gpusmith_gpu_model' in the inventory, or ask who changed the board.",
                    {"gpu": gpu.index, "name": gpu.name},
                )
            )
        # Drivers differ by some MiB in what they reserve.
        if gpu.memory_mib is not None and abs(gpu.memory_mib - model.memory_mib) > model.memory_mib * 0.02:
            problems.append(
                Problem(
                    f"Node '{node}': {gpu.label} has {gpu.memory_mib} MiB of memory, model '{model.key}' has {model.memory_mib}.",
                    RESET_STEP,
                    {"gpu": gpu.index, "memory_mib": gpu.memory_mib},
                )
            )
    return [*problems, *_partitioned(facts)]


def _partitioned(facts: NodeFacts) -> list[Problem]:
    """Inventories name whole GPUs; one in MIG mode runs nothing without instances, and less with them."""
    node, problems = facts.host.name, []
    for gpu in facts.record.gpus:
        if gpu.error:
            continue
        evidence = {
            "gpu": gpu.index,
            "uuid": gpu.uuid,
            "mig": gpu.mig_mode,
            "mig_pending": gpu.mig_mode_pending,
        }
        step = f"Drain '{node}' and run 'nvidia-smi -i {gpu.index} -mig 0', then reset the GPU."
        if "mig_mode" in gpu.unreadable:
            why = gpu.unreadable["mig_mode"]
            cause = f"Node '{node}': whether {gpu.label} is in MIG mode cannot be read, NVML says: {why}."
            problems.append(Problem(cause, f"Run 'nvidia-smi -q -i {gpu.index}' on '{node}'.", evidence))
        elif gpu.mig_mode == "enabled":
            cause = f"Node '{node}': {gpu.label} is in MIG mode, the inventory counts whole GPUs."
            problems.append(Problem(cause, step, evidence))
        elif gpu.mig_mode_pending == "enabled":
            cause = f"Node '{node}': {gpu.label} will be in MIG mode after its next reset, the inventory counts whole GPUs."
            problems.append(Problem(cause, step, evidence))
    return problems


def _service(facts: NodeFacts, name: str, why: str) -> list[Problem]:
    unit = facts.record.services.get(name)
    active = unit.active if unit else "unknown"
    enabled = unit.enabled if unit else "unknown"
    evidence = {name: {"active": active, "enabled": enabled}}
    node = facts.host.name
    if active != "active":
        return [
            Problem(
                f"Node '{node}': service '{name}' is {active or 'unknown'}; {why}.",
                f"Read 'journalctl -u {name}' on '{node}', then 'systemctl start {name}' or site.yml.",
                evidence,
            )
        ]
    if enabled not in ("enabled", "enabled-runtime", "static", "alias", "indirect", "generated"):
        return [
            Problem(
                f"Node '{node}': service '{name}' runs but is {enabled}, so it will not run after a reboot.",
                f"Run 'systemctl enable {name}' on '{node}' or site.yml.",
                evidence,
            )
        ]
    return []


def services(facts: NodeFacts) -> list[Problem]:
    """Runtime, kubelet and persistence daemon run and are enabled."""
    problems = _service(facts, "containerd", "no container can start") + _service(
        facts, "kubelet", "the node leaves the cluster"
    )
    if "nvidia-persistenced" in facts.record.packages:
        problems += _service(facts, "nvidia-persistenced", "GPUs lose their state when idle")
    return problems


def _switch_errors(facts: NodeFacts) -> list[Problem]:
    """Fatal errors that NVSwitches reported; what they call non-fatal they survive."""
    record, node = facts.record, facts.host.name
    if not record.pci_nvswitches:
        return []
    if record.switch_xids is None:
        cause = f"Node '{node}': the kernel's log could not be read, which has the NVSwitches' errors."
        return [Problem(cause, "Look at 'journalctl -b -k'.")]
    fatal = Counter((row.pci, row.code) for row in record.switch_xids if row.fatal)
    problems = []
    for (address, code), count in sorted(fatal.items()):
        said = [row.message for row in record.switch_xids if (row.pci, row.code) == (address, code)][-1]
        problems.append(
            Problem(
                f"Node '{node}': the NVSwitch at PCI {address} reported SXid {code}, which is fatal, {count} times: {said}.",
                f"Drain '{node}' and reset all its GPUs and switches ('nvidia-smi --gpu-reset') or reboot; if it comes back, have"
                " the baseboard looked at.",
                {f"sxid_{code}_{address}": {"count": count, "message": said}},
            )
        )
    return problems


def fabric(facts: NodeFacts) -> list[Problem]:
    """Where there are NVSwitches, CUDA works only after fabric manager has joined every GPU."""
    record, node, model = facts.record, facts.host.name, facts.model
    needed = bool(record.pci_nvswitches) or (model is not None and model.fabric_manager)
    if not needed:
        raise NotApplicable(f"Node '{node}' has no NVSwitches.")
    problems = _service(
        facts, "nvidia-fabricmanager", "without it CUDA cannot start on a machine with NVSwitches"
    )
    if model is not None and record.pci_nvswitches and model.nvswitches > len(record.pci_nvswitches):
        problems.append(
            Problem(
                f"Node '{node}': {len(record.pci_nvswitches)} NVSwitches are on the PCI bus,"
                f" an HGX board of model '{model.key}' has {model.nvswitches}.",
                f"Look at 'lspci -d 10de:' on '{node}'; a missing switch is a matter for the machine's vendor.",
                {"nvswitches": list(record.pci_nvswitches)},
            )
        )
    problems.extend(_switch_errors(facts))
    manager = record.packages.get("nvidia-fabricmanager")
    if (
        manager is not None
        and record.module_loaded is not None
        and not _mentions(manager.version, record.module_loaded)
    ):
        problems.append(
            Problem(
                f"Node '{node}': fabric manager is {upstream(manager.version)}, the loaded driver {record.module_loaded};"
                " they must be equal.",
                "Run site.yml, or playbooks/upgrade_driver.yml if the driver is to change.",
                {"fabric_manager": manager.version},
            )
        )
    if model is not None and model.fabric_state_in_nvml:
        for gpu in record.gpus:
            if gpu.error is None and (
                gpu.fabric_state != "completed" or gpu.fabric_status not in (None, "success")
            ):
                state = (
                    f"{gpu.fabric_state}, {gpu.fabric_status}" if gpu.fabric_status else str(gpu.fabric_state)
                )
                problems.append(
                    Problem(
                        f"Node '{node}': {gpu.label} has not joined the NVLink fabric: {state}.",
                        f"Read 'journalctl -u nvidia-fabricmanager' on '{node}'.",
                        {
                            "gpu": gpu.index,
                            "fabric_state": gpu.fabric_state,
                            "fabric_status": gpu.fabric_status,
                        },
                    )
                )
    return problems


def containerd(facts: NodeFacts) -> list[Problem]:
    """What containerd would really use, all its files merged."""
    node, effective = facts.host.name, facts.record.effective
    evidence = {"effective": dict(effective), "containerd": facts.record.containerd_version}
    step = f"Compare 'containerd config dump' on '{node}' with /etc/containerd, then run site.yml."
    if effective.get("runtime_nvidia") is None:
        return [Problem(f"Node '{node}': containerd's configuration cannot be read.", step, evidence)]
    wanted = {
        "runtime_nvidia": "has no runtime 'nvidia', so pods get no GPU",
        "systemd_cgroup": "does not use systemd's cgroups, as kubelet does",
        "cdi": "has CDI switched off, so the device plugin's devices do not reach containers",
    }
    problems = [
        Problem(f"Node '{node}': containerd's effective configuration {what}.", step, evidence)
        for key, what in wanted.items()
        if not effective.get(key)
    ]
    if effective.get("cri_disabled"):
        problems.append(
            Problem(
                f"Node '{node}': containerd's CRI plugin is disabled, kubelet cannot use it.", step, evidence
            )
        )
    binary = str(effective.get("runtime_binary") or "")
    if effective["runtime_nvidia"] and not _is_nvidia_runtime(binary):
        problems.append(
            Problem(
                f"Node '{node}': containerd's runtime 'nvidia' runs '{binary or 'runc'}'.", step, evidence
            )
        )
    elif facts.record.containerd.runtime_binary_found is False:
        problems.append(
            Problem(
                f"Node '{node}': program '{binary}' of containerd's runtime 'nvidia' is not there, no GPU container starts.",
                step,
                evidence,
            )
        )
    return problems + _default_runtime(facts, evidence) + _containerd_running(facts, evidence)


def _default_runtime(facts: NodeFacts, evidence: Mapping[str, Any]) -> list[Problem]:
    """Role nvidia_container_toolkit leaves the runtime of other pods alone, unless its variable says otherwise."""
    node, effective = facts.host.name, facts.record.effective
    name, binary = effective.get("default_runtime"), str(effective.get("default_binary") or "")
    wanted = facts.host.default_runtime_nvidia
    is_nvidia = name == "nvidia" or _is_nvidia_runtime(binary)
    if name is not None and is_nvidia == wanted:
        return []
    runs = f", which runs '{binary}'" if binary else ""
    variable = "'nvidia_container_toolkit_default_runtime'"
    if name is None:
        cause = f"Node '{node}': containerd's default runtime cannot be read."
        step = f"Look at 'containerd config dump' on '{node}'."
    elif is_nvidia:
        cause = f"Node '{node}': every pod runs with the NVIDIA runtime: containerd's default runtime is '{name}'{runs}."
        step = (
            f"Find the file that sets it, 'grep -rn nvidia /etc/containerd' on '{node}'; remove that and run site.yml,"
            f" or set {variable} to true in the inventory."
        )
    else:
        cause = f"Node '{node}': containerd's default runtime is '{name}'{runs}, the inventory wants 'nvidia' ({variable})."
        step = f"Compare 'containerd config dump' on '{node}' with /etc/containerd, then run site.yml."
    return [Problem(cause, step, evidence)]


def _is_nvidia_runtime(binary: str) -> bool:
    return binary.rpartition("/")[2].startswith("nvidia-container-runtime")


def _containerd_running(facts: NodeFacts, evidence: Mapping[str, Any]) -> list[Problem]:
    """Files are what the next start uses; the running one may have begun with others."""
    service, files = facts.record.services.get("containerd"), facts.record.containerd
    started = service.started_unix if service else None
    if started is None:
        return []  # that it does not run says nodes.services
    node, cause = facts.host.name, ""
    # systemd tells whole seconds.
    if files.noted_digest is not None and files.noted_unix is not None and files.noted_unix + 1 >= started:
        if files.noted_digest != files.digest:
            cause = (
                f"Node '{node}': containerd was started with another configuration than its files give now."
            )
    elif files.changed_unix is not None and files.changed_unix > started + 1:
        cause = f"Node '{node}': containerd was started before its configuration was changed, and does not use it."
    return (
        [Problem(cause, f"Run site.yml, or 'systemctl restart containerd' on '{node}'.", evidence)]
        if cause
        else []
    )


def char_links(facts: NodeFacts) -> list[Problem]:
    """Without them a daemon-reload takes GPUs out of running containers (nvidia-container-toolkit, issue 48)."""
    record, node = facts.record, facts.host.name
    wanted = {195: [*record.minors, 255] if record.control_device else list(record.minors)}
    missing = [
        f"{major}:{minor}"
        for major, minors in wanted.items()
        for minor in minors
        if f"{major}:{minor}" not in record.char_links
    ]
    if not record.minors:
        raise CannotAsk(f"Node '{node}' has no GPU device nodes; see nodes.gpu-count.")
    if not missing:
        return []
    return [
        Problem(
            f"Node '{node}': links {', '.join('/dev/char/' + name for name in missing)} are missing"
            " or lead elsewhere, so a 'systemctl daemon-reload' takes these devices from running containers.",
            f"Run 'nvidia-ctk system create-dev-char-symlinks --create-all' on '{node}', or site.yml;"
            " first remove a link that leads elsewhere.",
            {"missing": missing, "present": sorted(record.char_links)},
        )
    ]


def host_baseline(facts: NodeFacts) -> list[Problem]:
    """What kubelet and the pod network need of the kernel, and what else the inventory sets."""
    return _swap(facts) + _kernel_modules(facts) + _kernel_parameters(facts)


def _swap(facts: NodeFacts) -> list[Problem]:
    record, node = facts.record, facts.host.name
    if not facts.host.swap_off:
        return []
    evidence = {
        "swap_areas": None if record.swap_areas is None else list(record.swap_areas),
        "swap_fstab": list(record.swap_fstab),
        "swap_target_masked": record.swap_target_masked,
    }
    causes = []
    if record.swap_areas is None:
        causes.append("whether swap is on cannot be read")
    elif record.swap_areas:
        causes.append(
            f"swap is on, {', '.join(map(repr, record.swap_areas))}, with which kubelet does not start"
        )
    if record.swap_fstab:
        causes.append(f"/etc/fstab turns swap on at the next boot, {', '.join(map(repr, record.swap_fstab))}")
    if record.swap_target_masked is False:
        causes.append("'swap.target' is not masked, so that the next boot can turn swap on")
    step = (
        "Run site.yml, which turns it off; if it has to stay, set 'host_baseline_swap: keep',"
        " with 'failSwapOn: false' for kubelet."
    )
    return [Problem(f"Node '{node}': {cause}.", step, evidence) for cause in causes]


def _kernel_modules(facts: NodeFacts) -> list[Problem]:
    node = facts.host.name
    return [
        Problem(
            f"Node '{node}': kernel module '{name}' is not loaded, the inventory wants it.",
            f"Run site.yml, or 'modprobe {name}' on '{node}' for the reason.",
            {f"module_{name}": facts.record.kernel_modules.get(name)},
        )
        for name in facts.host.kernel_modules
        if not facts.record.kernel_modules.get(name)
    ]


def _kernel_parameters(facts: NodeFacts) -> list[Problem]:
    problems = []
    # kubeadm and every pod network insist on the first, also where the inventory lists other ones.
    for name, value in {"net.ipv4.ip_forward": "1", **facts.host.sysctl}.items():
        wanted, seen = " ".join(value.split()), facts.record.sysctl.get(name)
        if seen == wanted:
            continue
        state = "is not there" if seen is None else f"is '{seen}'"
        why = ", it needs module 'br_netfilter'" if seen is None and name.startswith("net.bridge.") else ""
        problems.append(
            Problem(
                f"Node '{facts.host.name}': kernel parameter '{name}' {state}{why}, wanted is '{wanted}'.",
                "Run site.yml; if it comes back, 'systemd-analyze cat-config sysctl.d'"
                f" on '{facts.host.name}' tells who else sets it.",
                {f"sysctl_{name}": {"wanted": wanted, "seen": seen}},
            )
        )
    return problems


def holds(facts: NodeFacts) -> list[Problem]:
    """Nobody's routine upgrade may change these."""
    record, node, wanted = facts.record, facts.host.name, facts.host.driver_version
    driver = [
        name
        for name, package in record.packages.items()
        if name.startswith(("nvidia-", "libnvidia-", "libcuda")) and _mentions(package.version, wanted)
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


def uniformity(facts: NodeFacts) -> list[Problem]:
    """Most nodes of a model set the norm; one that differs is named."""
    if len(facts.fleet) < 2:
        raise NotApplicable(
            f"Node '{facts.host.name}' is the only one of model '{facts.host.gpu_model}' in this run."
        )
    aspects: dict[str, Callable[[Record], object]] = {
        "loaded driver": lambda row: row.module_loaded,
        "module flavour": lambda row: row.module_flavour,
        "kernel": lambda row: row.kernel,
        "containerd": lambda row: row.containerd_version,
        "GPU names": lambda row: tuple(sorted({gpu.name for gpu in row.gpus if gpu.name})),
        "number of NVSwitches": lambda row: str(len(row.pci_nvswitches)),
        "number of PCIe lanes": lambda row: tuple(
            sorted({gpu.pcie_width_max for gpu in row.gpus if gpu.pcie_width_max})
        ),
        "MIG modes": lambda row: tuple(sorted({gpu.mig_mode for gpu in row.gpus if gpu.mig_mode})),
    }
    problems = []
    for aspect, read in aspects.items():
        # What is not there at all is another check's matter.
        values = Counter(value for row in facts.fleet.values() if (value := read(row)) not in (None, 0, ()))
        own = read(facts.record)
        if own not in values:
            continue
        usual, count = values.most_common(1)[0]
        # Two nodes that differ have no majority; then both are named, since nobody can tell which is right.
        if own != usual or (len(values) > 1 and count * 2 <= values.total()):
            other = usual if own != usual else next(value for value in values if value != own)
            problems.append(
                Problem(
                    f"Node '{facts.host.name}': {aspect} is {own!r}, on others of model '{facts.host.gpu_model}' {other!r}.",
                    "Bring the nodes to one state with site.yml, or put them into groups of their own.",
                    {aspect: {"own": repr(own), "other": repr(other)}},
                )
            )
    return problems


CHECKS: Mapping[str, NodeCheck] = {
    "nodes.identity": identity,
    "nodes.simulation-witnesses": simulation_witnesses,
    "nodes.driver-versions": driver_versions,
    "nodes.nvml": nvml,
    "nodes.gpu-count": gpu_count,
    "nodes.gpu-model": gpu_model,
    "nodes.services": services,
    "nodes.fabric": fabric,
    "nodes.ecc": checks_health.ecc,
    "nodes.row-remap": checks_health.row_remap,
    "nodes.xid": checks_health.xid,
    "nodes.throttle": checks_health.throttle,
    "nodes.pcie-width": checks_health.pcie_width,
    "nodes.processes": checks_health.processes,
    "nodes.containerd": containerd,
    "nodes.cdi": checks_devices.cdi,
    "nodes.char-links": char_links,
    "nodes.host-baseline": host_baseline,
    "nodes.holds": holds,
    "nodes.uniformity": uniformity,
}
