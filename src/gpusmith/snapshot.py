"""What the cluster's lists say of every node, gathered once per run and read by all checks of the cluster tier."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from gpusmith import managed_fields, operands
from gpusmith.kube import Cluster, Object
from gpusmith.wait import Deadline, Done, NotYet, WaitTimeout, wait_until

GPU_RESOURCE = "nvidia.com/gpu"
FAMILY = "nvidia.com/"
GOOD_WHEN_TRUE = ("Ready", "Healthy")
"""How names of conditions end that are well when true, such as AWS's AcceleratedHardwareReady; the others are pressure."""
FINISHED = ("Succeeded", "Failed")
OPERANDS_WAIT_S = 60.0
OPERANDS_TICK_S = 3.0


@dataclass(frozen=True)
class Holder:
    """A pod that GPUs are allocated to."""

    namespace: str
    name: str
    gpus: int


@dataclass(frozen=True)
class NodeView:
    """A Node object, and the pods on it that matter.

    Attributes:
        name: of the Node.
        ready: condition Ready is True.
        conditions: why not, or what presses it.
        unschedulable: cordoned.
        capacity: GPUs; None if the resource is not there at all.
        allocatable: the same.
        labels: all.
        annotations: all.
        taints: all.
        holders: pods that hold GPUs.
        system_pods: pods of the operands' namespace on the node.
        plugins: pods of NVIDIA's device plugin in other namespaces, as namespace/name.
        others: resources of NVIDIA's by other names that the node has any of, such as MIG devices.
    """

    name: str
    ready: bool
    conditions: tuple[str, ...]
    unschedulable: bool
    capacity: int | None
    allocatable: int | None
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    taints: tuple[Mapping[str, str], ...]
    holders: tuple[Holder, ...] = ()
    system_pods: tuple[Object, ...] = field(default=(), repr=False)
    plugins: tuple[str, ...] = ()
    others: Mapping[str, int] = field(default_factory=dict)

    @property
    def held(self) -> int:
        """GPUs that pods hold."""
        return sum(holder.gpus for holder in self.holders)

    @property
    def free(self) -> int:
        """GPUs that a pod could still get."""
        return max(0, (self.allocatable or 0) - self.held)


@dataclass(frozen=True)
class Snapshot:
    """All of it, at one moment.

    Attributes:
        nodes: by name of the Node.
        runtime_classes: handlers by name.
        system_pods: unfinished pods of the operands' namespaces, wherever they are, also nowhere yet.
        foreign_fields: by title of a DaemonSet or RuntimeClass, whosever it is, what site.yml did not set in it.
    """

    nodes: Mapping[str, NodeView]
    runtime_classes: Mapping[str, str]
    system_pods: tuple[Object, ...] = field(default=(), repr=False)
    foreign_fields: Mapping[str, Sequence[str]] = field(default_factory=dict, repr=False)

    @property
    def operand_pods(self) -> tuple[Object, ...]:
        """Of the operands' namespaces, those that serve these nodes; on a dead node none is ready, nor will be."""
        masters = tuple(pod for pod in self.system_pods if operands.name(pod) == operands.NFD_MASTER)
        return (*(pod for view in self.nodes.values() if view.ready for pod in view.system_pods), *masters)


def quantity(value: object) -> int | None:
    """A whole number of GPUs."""
    matched = re.fullmatch(r"\d+", str(value)) if value is not None else None
    return int(matched.group()) if matched else None


def gpus_of(pod: Object) -> int:
    """GPUs that the scheduler counts for a pod: its containers together, or its largest init container."""

    def asked(container: Mapping[str, Any]) -> int:
        limits = (container.get("resources") or {}).get("limits") or {}
        return quantity(limits.get(GPU_RESOURCE)) or 0

    spec = pod.get("spec") or {}
    side = [row for row in spec.get("initContainers") or [] if row.get("restartPolicy") == "Always"]
    first = [row for row in spec.get("initContainers") or [] if row.get("restartPolicy") != "Always"]
    running = sum(asked(row) for row in [*(spec.get("containers") or []), *side])
    return max([running, *(asked(row) for row in first)])


def _finished(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in FINISHED


def _name(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _is_foreign_plugin(pod: Object, operands_namespace: str) -> bool:
    containers = (pod.get("spec") or {}).get("containers") or []
    return pod["metadata"]["namespace"] != operands_namespace and any(
        operands.component(row) == operands.DEVICE_PLUGIN for row in containers
    )


def view_of(node: Object, pods: Iterable[Object], operands_namespace: str) -> NodeView:
    """A node and its pods, from the API's own data."""
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    conditions = {row["type"]: row for row in status.get("conditions") or []}
    ready = conditions.get("Ready", {}).get("status") == "True"
    wrong = [
        f"{kind}={row.get('status')}: {row.get('message') or row.get('reason') or 'no reason given'}"
        for kind, row in conditions.items()
        if kind.endswith(GOOD_WHEN_TRUE) != (row.get("status") == "True")
    ]
    present = [pod for pod in pods if not _finished(pod)]
    holders = [Holder(pod["metadata"]["namespace"], pod["metadata"]["name"], gpus_of(pod)) for pod in present]
    return NodeView(
        name=metadata["name"],
        ready=ready,
        conditions=tuple(wrong),
        unschedulable=bool(spec.get("unschedulable")),
        capacity=quantity((status.get("capacity") or {}).get(GPU_RESOURCE)),
        allocatable=quantity((status.get("allocatable") or {}).get(GPU_RESOURCE)),
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        taints=tuple(spec.get("taints") or ()),
        holders=tuple(holder for holder in holders if holder.gpus),
        system_pods=tuple(pod for pod in present if pod["metadata"]["namespace"] == operands_namespace),
        plugins=tuple(_name(pod) for pod in present if _is_foreign_plugin(pod, operands_namespace)),
        others={
            name: count
            for name, value in (status.get("capacity") or {}).items()
            if name.startswith(FAMILY) and name != GPU_RESOURCE and (count := quantity(value))
        },
    )


def take(cluster: Cluster, operands_namespaces: Mapping[str, str]) -> Snapshot:
    """Four lists, however many nodes there are.

    Args:
        cluster: the API.
        operands_namespaces: namespace of the operands per node; its keys are the nodes to look at.

    Raises:
        ToolError: the API server does not answer or refuses.
    """
    nodes = {
        row["metadata"]["name"]: row
        for row in cluster.items("/api/v1/nodes")
        if row["metadata"]["name"] in operands_namespaces
    }
    pods: dict[str, list[Object]] = {name: [] for name in nodes}
    system_pods = []
    namespaces = set(operands_namespaces.values())
    for pod in cluster.items("/api/v1/pods"):
        if pod["metadata"]["namespace"] in namespaces and not _finished(pod):
            system_pods.append(pod)
        where = (pod.get("spec") or {}).get("nodeName")
        if where in pods:
            pods[where].append(pod)
    classes = list(cluster.items("/apis/node.k8s.io/v1/runtimeclasses"))
    foreign_fields = {
        managed_fields.title(kind, row["metadata"]["name"], row["metadata"].get("namespace", "")): fields
        for kind, rows in (
            ("RuntimeClass", classes),
            ("DaemonSet", cluster.items("/apis/apps/v1/daemonsets")),
        )
        for row in rows
        if (fields := managed_fields.additions(row))
    }
    views = {name: view_of(node, pods[name], operands_namespaces[name]) for name, node in nodes.items()}
    handlers = {row["metadata"]["name"]: str(row.get("handler")) for row in classes}
    return Snapshot(views, handlers, tuple(system_pods), foreign_fields)


def take_settled(
    cluster: Cluster,
    operands_namespaces: Mapping[str, str],
    say: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> Snapshot:
    """The lists, once no operand is about to become ready; one that is not by the deadline is for the checks to name.

    Args:
        cluster: as of take().
        operands_namespaces: as of take().
        say: told about waiting.
        sleep: replaced in tests.

    Raises:
        ToolError: as take().
    """
    taken: list[Snapshot] = []

    def look() -> Done[None] | NotYet:
        taken.append(take(cluster, operands_namespaces))
        pods = operands.starting(taken[-1].operand_pods)
        if pods and len(taken) == 1:
            say(f"waiting for operands that start, {OPERANDS_WAIT_S:.0f} s at most: {', '.join(pods)}")
        return NotYet(", ".join(pods)) if pods else Done(None)

    with suppress(WaitTimeout):
        wait_until("the operands to start", look, Deadline(OPERANDS_WAIT_S), OPERANDS_TICK_S, sleep)
    return taken[-1]


def simulated_label(view: NodeView) -> bool:
    """What the Node object says about simulation."""
    return view.labels.get("gpusmith.io/simulated") == "true"


def stamp(view: NodeView) -> Object:
    """The stamp of an earlier validation; empty if there is none."""
    try:
        value = json.loads(view.annotations.get("gpusmith.io/validated", ""))
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
