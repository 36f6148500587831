"""Checks of the cluster tier: pure functions over one snapshot of the API's lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpusmith import operands as of_pod
from gpusmith.findings import CannotAsk, NotApplicable
from gpusmith.inventory.host import Host
from gpusmith.managed_fields import title
from gpusmith.problems import Problem
from gpusmith.snapshot import GPU_RESOURCE, NodeView, Snapshot

SITE = "Run site.yml for the node."
DRIVER_LABEL = "nvidia.com/cuda.driver-version.full"


@dataclass(frozen=True)
class ClusterFacts:
    """What a check gets.

    Attributes:
        host: what the inventory says.
        node_name: of the Node object.
        view: the Node object; None if the cluster has none.
        system_pods: pods of the operands' namespaces on all nodes.
        foreign_fields: as of Snapshot.
    """

    host: Host
    node_name: str
    view: NodeView | None
    system_pods: Sequence[Mapping[str, Any]] = ()
    foreign_fields: Mapping[str, Sequence[str]] = field(default_factory=dict)


ClusterCheck = Callable[[ClusterFacts], Sequence[Problem]]


def _need_view(facts: ClusterFacts) -> NodeView:
    if facts.view is None:
        raise CannotAsk(f"The cluster has no node '{facts.node_name}'; see cluster.node-ready.")
    return facts.view


def node_ready(facts: ClusterFacts) -> list[Problem]:
    """It exists, and is Ready."""
    if facts.view is None:
        return [
            Problem(
                f"The cluster has no node '{facts.node_name}' (host '{facts.host.name}').", "Join it: " + SITE
            )
        ]
    if facts.view.ready and not facts.view.conditions:
        return []
    seen = "; ".join(facts.view.conditions) or "it has no condition 'Ready'"
    return [
        Problem(
            f"Node '{facts.node_name}' is {'under pressure' if facts.view.ready else 'not Ready'}: {seen}.",
            f"Read 'journalctl -u kubelet' on '{facts.host.name}'.",
            {"conditions": list(facts.view.conditions)},
        )
    ]


def gpu_capacity(facts: ClusterFacts) -> list[Problem]:
    """Capacity = allocatable = inventory, and no GPU is offered under another name as well."""
    view, wanted = _need_view(facts), facts.host.gpu_count
    problems = [
        Problem(
            f"Node '{view.name}' also offers {count} of '{name}', which the inventory does not know:"
            " GPUs can be given out twice.",
            "Look for another device plugin, or restart kubelet if it is the rest of one: kubectl get pods -A -o wide",
            {"others": dict(view.others)},
        )
        for name, count in view.others.items()
    ]
    return problems + _gpu_capacity(
        view, wanted, of_pod.restart_plugin(facts.host.operands_namespace, facts.host.node_name)
    )


def _gpu_capacity(view: NodeView, wanted: int, restart: str) -> list[Problem]:
    if view.capacity == view.allocatable == wanted:
        return []
    evidence = {"capacity": view.capacity, "allocatable": view.allocatable, "inventory": wanted}
    if view.capacity is None:
        cause = f"Node '{view.name}' offers no resource '{GPU_RESOURCE}', the inventory says {wanted} GPUs"
    elif view.allocatable != view.capacity:
        cause = (
            f"Node '{view.name}': {view.allocatable} of {view.capacity} GPUs are allocatable, the inventory says {wanted};"
            " the device plugin holds the others to be unhealthy, or kubelet lost it"
        )
    elif view.capacity > wanted and view.capacity % wanted == 0:
        cause = (
            f"Node '{view.name}' offers {view.capacity} GPUs, {view.capacity // wanted} times the inventory's {wanted},"
            " as with time slicing or MPS"
        )
        return [
            Problem(
                cause + ".",
                "Look for 'sharing' in the device plugin's configuration, and for a second device plugin:"
                " kubectl get pods -A -o wide",
                evidence,
            )
        ]
    else:
        cause = f"Node '{view.name}' offers {view.capacity} GPUs, the inventory says {wanted}"
    return [
        Problem(
            cause + ".",
            "Read the device plugin's log for the node; see nodes.gpu-count and nodes.xid."
            + ("" if view.allocatable else f" If those passed, restart it: {restart}"),
            evidence,
        )
    ]


def labels(facts: ClusterFacts) -> list[Problem]:
    """Our labels, the inventory's, and the one that feature discovery writes."""
    view, host = _need_view(facts), facts.host
    wanted = {
        "gpu-type": host.gpu_model,
        **({"gpusmith.io/operands": "enabled"} if host.operands else {}),
        **({"gpusmith.io/simulated": "true"} if host.simulated else {}),
        **host.labels,
    }
    wrong = {key: view.labels.get(key) for key, value in wanted.items() if view.labels.get(key) != value}
    problems = [
        Problem(
            f"Node '{view.name}': label '{key}' is {seen!r}, it must be '{wanted[key]}'.",
            SITE,
            {"labels": {key: seen}},
        )
        for key, seen in wrong.items()
    ]
    if not host.simulated and view.labels.get("gpusmith.io/simulated") == "true":
        problems.append(
            Problem(
                f"Node '{view.name}' is labelled as simulated, the inventory says that its GPUs are real.",
                "Correct 'gpusmith_simulated' in the inventory, or run site.yml.",
                {"labels": {"gpusmith.io/simulated": "true"}},
            )
        )
    found = view.labels.get("nvidia.com/gpu.count")
    if found is None:
        problems.append(
            Problem(
                f"Node '{view.name}' has no label 'nvidia.com/gpu.count': GPU feature discovery did not describe it.",
                "Read the logs of GPU feature discovery and of node feature discovery.",
            )
        )
    elif found != str(host.gpu_count):
        problems.append(
            Problem(
                f"Node '{view.name}': GPU feature discovery counts {found} GPUs, the inventory says {host.gpu_count}.",
                "See nodes.gpu-count.",
                {"labels": {"nvidia.com/gpu.count": found}},
            )
        )
    described = view.labels.get(DRIVER_LABEL)
    if found is not None and described not in (None, host.driver_version):
        problems.append(
            Problem(
                f"Node '{view.name}': label '{DRIVER_LABEL}' is '{described}', the inventory's driver is {host.driver_version}.",
                "See nodes.driver-versions; if that passes, read the log of GPU feature discovery.",
                {"labels": {DRIVER_LABEL: described}},
            )
        )
    return problems


def taints(facts: ClusterFacts) -> list[Problem]:
    """The inventory's taints are there."""
    view = _need_view(facts)

    def flat(row: Mapping[str, Any]) -> tuple[str, str, str]:
        return str(row.get("key")), str(row.get("value") or ""), str(row.get("effect", "NoSchedule"))

    present = {flat(row) for row in view.taints}
    return [
        Problem(
            f"Node '{view.name}' lacks taint '{key}={value}:{effect}', so pods without GPUs can take its place.",
            SITE,
            {"taints": [list(row) for row in sorted(present)]},
        )
        for key, value, effect in map(flat, facts.host.taints)
        if (key, value, effect) not in present
    ]


def operands(facts: ClusterFacts) -> list[Problem]:
    """Pods of the operands' namespace on the node are ready; operands of ours have one there, and are as site.yml made them."""
    view, host = _need_view(facts), facts.host
    if not host.operands:
        raise NotApplicable(
            f"The cluster's own operands serve node '{view.name}'; see cluster.gpu-capacity for what they do."
        )
    problems = []
    for pod in view.system_pods:
        wrong = of_pod.problem(pod)
        name = pod["metadata"]["name"]
        if wrong:
            problems.append(
                Problem(
                    f"Node '{view.name}': operand '{host.operands_namespace}/{name}': {wrong}.",
                    f"Read: kubectl -n {host.operands_namespace} logs {name}",
                    {"pod": name},
                )
            )
    if "nvidia-device-plugin" in host.operands:
        problems += [
            Problem(
                f"Node '{view.name}': pod '{name}' is a second device plugin; the last one that starts takes the GPUs over,"
                " and none has them when it ends.",
                "Remove it, then restart ours: "
                + of_pod.restart_plugin(facts.host.operands_namespace, facts.host.node_name),
                {"plugins": list(view.plugins)},
            )
            for name in view.plugins
        ]
    where = f"Look at: kubectl -n {host.operands_namespace} get daemonsets,pods -o wide"
    present = {of_pod.name(pod) for pod in view.system_pods}
    problems += [
        Problem(
            f"Node '{view.name}' runs no pod of operand '{name}' in namespace '{host.operands_namespace}'.",
            where,
            {"present": sorted(present)},
        )
        for name in host.operands
        if name not in present
    ]
    if "nfd-worker" in host.operands and not any(
        of_pod.name(pod) == of_pod.NFD_MASTER
        and pod["metadata"]["namespace"] == host.operands_namespace
        and not of_pod.problem(pod)
        for pod in facts.system_pods
    ):
        problems.append(
            Problem(
                f"No pod of '{of_pod.NFD_MASTER}' is ready in namespace '{host.operands_namespace}': what feature discovery finds"
                f" on node '{view.name}' does not become labels.",
                f"Look at: kubectl -n {host.operands_namespace} get deployments,pods -o wide",
            )
        )
    return problems + _foreign_fields(facts, view)


def _foreign_fields(facts: ClusterFacts, view: NodeView) -> list[Problem]:
    """What others set in the operands that are ours: a device plugin with other settings is not what the inventory means."""
    host = facts.host
    ours = [title("DaemonSet", name, host.operands_namespace) for name in host.operands]
    found = {
        name: list(facts.foreign_fields[name])
        for name in (*ours, title("RuntimeClass", host.runtime_class))
        if name in facts.foreign_fields
    }
    return [
        Problem(
            f"Node '{view.name}': in {name} somebody else than site.yml set {', '.join(fields)}.",
            "Run site.yml.",
            {"foreign_fields": found},
        )
        for name, fields in found.items()
    ]


def runtime_class(snapshot: Snapshot, hosts: Sequence[Host]) -> list[Problem]:
    """Every RuntimeClass that the inventory names is there."""
    problems = []
    for name in sorted(
        {host.runtime_class for host in hosts}
        | {host.pod_runtime_class for host in hosts if host.pod_runtime_class}
    ):
        handler = snapshot.runtime_classes.get(name)
        if handler is None:
            problems.append(
                Problem(
                    f"The cluster has no RuntimeClass '{name}'.",
                    "Run site.yml.",
                    {"runtime_classes": dict(snapshot.runtime_classes)},
                )
            )
        elif name == "nvidia" and handler != "nvidia":
            problems.append(
                Problem(
                    f"RuntimeClass '{name}' has handler '{handler}', not 'nvidia'.",
                    f"A handler cannot be changed: 'kubectl delete runtimeclass {name}', then run site.yml.",
                    {"handler": handler},
                )
            )
    return problems


def evidence(check: str, view: NodeView | None) -> dict[str, Any]:
    """What a passed check saw, also what it does not judge: a cordon or a foreign taint may be meant."""
    if view is None:
        return {}
    if check == "cluster.gpu-capacity":
        return {"capacity": view.capacity, "allocatable": view.allocatable}
    if check in ("cluster.node-ready", "cluster.taints"):
        taints = [
            [str(row.get("key")), str(row.get("value") or ""), str(row.get("effect"))] for row in view.taints
        ]
        return {"unschedulable": view.unschedulable, "taints": taints}
    return {}


CHECKS: Mapping[str, ClusterCheck] = {
    "cluster.node-ready": node_ready,
    "cluster.gpu-capacity": gpu_capacity,
    "cluster.labels": labels,
    "cluster.taints": taints,
    "cluster.operands": operands,
}
