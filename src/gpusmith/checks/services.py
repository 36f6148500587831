"""Checks of the nodes tier on what must run beside the GPUs: services and the NVSwitch fabric."""

from __future__ import annotations

from collections import Counter

from gpusmith.checks.driver import mentions, upstream
from gpusmith.findings import NotApplicable
from gpusmith.node.facts import NodeFacts
from gpusmith.problems import Problem


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
    if unit is not None and unit.changed:
        return [
            Problem(
                f"Node '{node}': service '{name}' runs by other unit files than there are now; its next start goes by those.",
                f"Look at 'systemctl cat {name}' on '{node}': take back what is not meant, then 'systemctl daemon-reload'.",
                {name: {**evidence[name], "need_daemon_reload": True}},
            )
        ]
    return []


OURS = {
    "gpusmith-nvidia-load": "nobody loads the driver before the runtime starts",
    "gpusmith-gpu-devices": "nobody makes device links and CDI specification anew",
}
"""Units of our roles that run once; a node that others set up has none of them."""
AT_BOOT = {
    **OURS,
    "systemd-modules-load": "no kernel modules are loaded",
    "systemd-sysctl": "no kernel parameters are set",
}
"""What boots need."""

CDI_REFRESH = "nvidia-cdi-refresh"
CDI_REFRESH_FILES = ("/run/cdi/nvidia.yaml", "/var/run/cdi/nvidia.yaml")
"""The toolkit's own unit, and what it makes, which no boot keeps."""


def _at_boot(facts: NodeFacts) -> list[Problem]:
    node, record = facts.host.name, facts.record
    needed = dict(AT_BOOT)
    ours = record.services.get("gpusmith-gpu-devices")
    lost = [spec.path for spec in record.cdi.specs if spec.path in CDI_REFRESH_FILES]
    # Our own unit makes the specification anew as well: with it, the toolkit's may be off.
    if lost and (ours is None or ours.enabled == "not-found"):
        needed[CDI_REFRESH] = f"nobody makes CDI specification '{lost[0]}' anew"
    with_ours = any(record.services[name].enabled != "not-found" for name in OURS if name in record.services)
    problems = []
    for name, why in needed.items():
        unit = record.services.get(name)
        gone = unit is not None and name in OURS and with_ours and unit.enabled == "not-found"
        if unit is None or not (gone or unit.enabled in ("disabled", "masked")):
            continue
        step = f"Run 'systemctl enable {name}' on '{node}' ('unmask' first, if it is masked) or site.yml."
        problems.append(
            Problem(
                f"Node '{node}': service '{name}' is {unit.enabled}, so that after a reboot {why}.",
                "Run site.yml for the node." if gone else step,
                {name: {"active": unit.active, "enabled": unit.enabled}},
            )
        )
    return problems


def services(facts: NodeFacts) -> list[Problem]:
    """Runtime, kubelet and persistence daemon run and are enabled; what boots need is enabled."""
    problems = _service(facts, "containerd", "no container can start") + _service(
        facts, "kubelet", "the node leaves the cluster"
    )
    if "nvidia-persistenced" in facts.record.packages:
        problems += _service(facts, "nvidia-persistenced", "GPUs lose their state when idle")
    return problems + _at_boot(facts)


def _switch_errors(facts: NodeFacts) -> list[Problem]:
    """Fatal errors that NVSwitches reported; what they call non-fatal they survive."""
    record, node = facts.record, facts.host.name
    if not record.pci.nvswitches:
        return []
    if record.sxids is None:
        cause = f"Node '{node}': the kernel's log could not be read, which has the NVSwitches' errors."
        return [Problem(cause, "Look at 'journalctl -b -k'.")]
    fatal = Counter((row.pci, row.code) for row in record.sxids if row.fatal)
    problems = []
    for (address, code), count in sorted(fatal.items()):
        said = [row.message for row in record.sxids if (row.pci, row.code) == (address, code)][-1]
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
    needed = bool(record.pci.nvswitches) or (model is not None and model.fabric_manager)
    if not needed:
        raise NotApplicable(f"Node '{node}' has no NVSwitches.")
    problems = _service(
        facts, "nvidia-fabricmanager", "without it CUDA cannot start on a machine with NVSwitches"
    )
    if model is not None and record.pci.nvswitches and model.nvswitches > len(record.pci.nvswitches):
        problems.append(
            Problem(
                f"Node '{node}': {len(record.pci.nvswitches)} NVSwitches are on the PCI bus,"
                f" an HGX board of model '{model.key}' has {model.nvswitches}.",
                f"Look at 'lspci -d 10de:' on '{node}'; a missing switch is a matter for the machine's vendor.",
                {"nvswitches": list(record.pci.nvswitches)},
            )
        )
    problems.extend(_switch_errors(facts))
    manager = record.packages.get("nvidia-fabricmanager")
    if (
        manager is not None
        and record.module.loaded_version is not None
        and not mentions(manager.version, record.module.loaded_version)
    ):
        problems.append(
            Problem(
                f"Node '{node}': fabric manager is {upstream(manager.version)}, the loaded driver {record.module.loaded_version};"
                " they must be equal.",
                "Run site.yml, or playbooks/upgrade_driver.yml if the driver is to change.",
                {"fabric_manager": manager.version},
            )
        )
    if model is not None and model.fabric_state_in_nvml:
        for gpu in record.nvml.gpus:
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
