"""Whether pods compute on GPUs that they were given."""

from __future__ import annotations

from gpusmith.checks.findings import CannotAsk, NotApplicable
from gpusmith.checks.register import check
from gpusmith.node.facts import NodeFacts, need_nvml
from gpusmith.probe.allocations import UNREAD
from gpusmith.probe.nvml import Gpu, Process
from gpusmith.problems import Problem

SERVER = "nvidia-cuda-mps"
"""How names of MPS's own processes begin, which the device plugin runs for all pods that share a GPU."""


@check(
    "nodes.pod-processes",
    place=155,
    proves="a pod computes only on GPUs that it was given",
    fails_when="a process of a pod computes on a GPU that the kubelet did not give to that pod",
    do="look at the pod: it may be privileged, mount /dev, or have got the GPU through NVIDIA_VISIBLE_DEVICES or a runtime class",
)
def pod_processes(facts: NodeFacts) -> list[Problem]:
    """No process of a pod computes on a GPU that the kubelet did not allocate to that pod."""
    node, given = facts.host.name, facts.record.allocations
    unread = [error for error in facts.record.errors if UNREAD in error]
    if given is None and unread:
        raise CannotAsk(f"Node '{node}': nobody knows which pods were given which GPUs: {unread[0]}.")
    if given is None:
        raise NotApplicable(f"Node '{node}': not applicable: the kubelet has given no device to a pod yet.")
    gpus, problems = need_nvml(facts), []
    for gpu in gpus:
        for row in gpu.processes or ():
            if row.pod_uid is None or row.pod_uid in given.claimants or (row.name or "").startswith(SERVER):
                continue
            if not _has(given.devices.get(row.pod_uid, ()), gpu):
                problems.append(_problem(node, gpu, row, given.devices.get(row.pod_uid, ())))
    if not problems and any(gpu.processes is None for gpu in gpus):
        raise CannotAsk(f"Node '{node}': not every GPU's processes can be read; see nodes.processes.")
    return problems


def _has(devices: tuple[str, ...], gpu: Gpu) -> bool:
    # Shares have '::NUMBER' behind their GPU (k8s-device-plugin 0.19.0, AnnotatedID in internal/rm/devices.go).
    parts = {part.uuid for part in gpu.instances or ()}
    return any(
        name.partition("::")[0] == gpu.uuid or name in parts or (not parts and name.startswith("MIG-"))
        for name in devices
    )


def _problem(node: str, gpu: Gpu, row: Process, devices: tuple[str, ...]) -> Problem:
    had = f"it was given {', '.join(devices)}" if devices else "it was given no GPU"
    return Problem(
        f"Node '{node}': {gpu.label} is used by '{row.name or 'unknown'}' (PID {row.pid}) of the pod with UID '{row.pod_uid}',"
        f" but {had}.",
        f"Find the pod: kubectl get pods -A --field-selector spec.nodeName={node} -o"
        " custom-columns=UID:.metadata.uid,NAME:.metadata.name; see whether it is privileged or"
        " mounts /dev.",
        {
            f"pod_processes_gpu_{gpu.index}": {
                "pid": row.pid,
                "name": row.name,
                "pod_uid": row.pod_uid,
                "given": list(devices),
            }
        },
    )
