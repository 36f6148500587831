"""What the cluster's lists say, gathered once per run and read by all checks of the cluster tier."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from gpusmith.cluster import dra, managed_fields, operands
from gpusmith.cluster.api import FORBIDDEN, MISSING, ApiRefused, Cut, Object
from gpusmith.cluster.holders import finished
from gpusmith.cluster.lists import Lists
from gpusmith.cluster.views import NODES, PODS, NodeView, view_of
from gpusmith.data.operands import DEVICE_PLUGIN, deployed
from gpusmith.names import CLAIMS_QUOTA, COUNT_LABEL, DRIVER_LABEL, POLICY
from gpusmith.plain import Shared
from gpusmith.wait import Deadline, Done, NotYet, WaitTimeout, wait_until

CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
QUOTAS, LIMIT_RANGES = "/api/v1/resourcequotas", "/api/v1/limitranges"
POLICIES = {
    kind: f"/apis/admissionregistration.k8s.io/v1/{plural}"
    for kind, plural in (
        ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
        ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
    )
}
"""Lists of an admission policy's parts, in the order in which they are deleted: a policy without a binding does nothing."""
GPU_RESOURCES = "nvidia.com/"
"""Beginning of the names of what GPU nodes offer: GPUs, shares, MIG instances."""
OPERANDS_WAIT_S = 60.0
OPERANDS_TICK_S = 3.0


@dataclass(frozen=True)
class Snapshot:
    """All of it, at one moment.

    Attributes:
        nodes: by name of the Node.
        runtime_classes: handlers by name.
        system_pods: unfinished pods of the operands' namespaces, wherever they are, also nowhere yet.
        foreign_fields: by title of a DaemonSet or RuntimeClass, whosever it is, what site.yml did not set in it.
        resource_quotas: those that name GPUs, with namespace, name and as much of them as does; None if they may not be listed.
        limit_ranges: the same of LimitRanges.
        policies: our admission policy and its binding, with kind, name and spec; None if they may not be listed.
    """

    nodes: Mapping[str, NodeView]
    runtime_classes: Mapping[str, str]
    system_pods: tuple[Object, ...] = field(default=(), repr=False)
    foreign_fields: Mapping[str, Sequence[str]] = field(default_factory=dict, repr=False)
    resource_quotas: tuple[Object, ...] | None = ()
    limit_ranges: tuple[Object, ...] | None = ()
    policies: tuple[Object, ...] | None = ()

    @cached_property
    def ready_operands(self) -> frozenset[tuple[str, str]]:
        """Namespace and name of operands of which a pod serves."""
        return frozenset(
            (pod["metadata"]["namespace"], operands.name(pod))
            for pod in self.system_pods
            if not operands.problem(pod)
        )

    def serving(self, pods: Iterable[Object]) -> list[Object]:
        """Those of the operands' pods that serve these nodes; on a dead node none is ready, nor will be."""
        once = {row.deployment for row in deployed() if row.deployment}
        ready = {name for name, view in self.nodes.items() if view.ready}
        return [
            pod
            for pod in pods
            if (pod.get("spec") or {}).get("nodeName") in ready or operands.name(pod) in once
        ]


def take(cluster: Lists, operands_namespaces: Mapping[str, str], ours: bool = True) -> Snapshot:
    """Eight lists, and two of Dynamic Resource Allocation where it is served, however many nodes there are.

    Args:
        cluster: the API.
        operands_namespaces: namespace of the operands per node; its keys are the nodes to look at.
        ours: whether gpusmith set nodes of it up: if not, nobody set anything in its operands.

    Raises:
        ToolError: the API server does not answer or refuses.
    """
    namespaces, shared = set(operands_namespaces.values()), Shared()

    def cut_node(node: Object) -> Object | None:
        return shared(_without_bulk(node)) if node["metadata"]["name"] in operands_namespaces else None

    def cut_pod(pod: Object) -> Object | None:
        here = (pod.get("spec") or {}).get("nodeName") in operands_namespaces
        system = pod["metadata"]["namespace"] in namespaces
        if finished(pod) or not (here or system):
            return None
        return shared(_without_bulk(pod) if system or operands.components(pod["spec"]) else _tenant(pod))

    nodes = {row["metadata"]["name"]: row for row in cluster.items(NODES, cut_node)}
    pods: dict[str, list[Object]] = {name: [] for name in nodes}
    system_pods = []
    for pod in cluster.items(PODS, cut_pod):
        if pod["metadata"]["namespace"] in namespaces:
            system_pods.append(pod)
        where = (pod.get("spec") or {}).get("nodeName")
        if where in pods:
            pods[where].append(pod)
    classes = cluster.items(CLASSES, _fields) if ours else _if_allowed(cluster, CLASSES, _fields) or []
    foreign_fields = {
        managed_fields.title(kind, row["metadata"]["name"], row["metadata"].get("namespace", "")): fields
        for kind, rows in (
            ("RuntimeClass", classes),
            ("DaemonSet", cluster.items("/apis/apps/v1/daemonsets", _fields) if ours else ()),
        )
        for row in rows
        if (fields := managed_fields.additions(row))
    }
    claims = dra.read(cluster, [pod for rows in pods.values() for pod in rows], offers=True)
    views = {
        name: view_of(node, pods[name], operands_namespaces[name], claims) for name, node in nodes.items()
    }
    handlers = {row["metadata"]["name"]: str(row.get("handler")) for row in classes}
    quotas, ranges = _if_allowed(cluster, QUOTAS, _quota), _if_allowed(cluster, LIMIT_RANGES, _limit_range)
    return Snapshot(
        views,
        handlers,
        tuple(system_pods),
        foreign_fields,
        None if quotas is None else tuple(quotas),
        None if ranges is None else tuple(ranges),
        _policies(cluster) if ours else (),
    )


def _policies(cluster: Lists) -> tuple[Object, ...] | None:
    found: list[Object] = []
    for kind, path in POLICIES.items():

        def cut(row: Object, kind: str = kind) -> Object | None:
            ours = row["metadata"]["name"] == POLICY
            return {"kind": kind, "metadata": {"name": POLICY}, "spec": row["spec"]} if ours else None

        rows = _if_allowed(cluster, path, cut)
        if rows is None:
            return None
        found += rows
    return tuple(found)


def _fields(found: Object) -> Object:
    """Who set which field of an object, and the handler of a RuntimeClass."""
    metadata = {
        name: found["metadata"][name]
        for name in ("name", "namespace", "managedFields")
        if name in found["metadata"]
    }
    return {"metadata": metadata, **({"handler": found["handler"]} if "handler" in found else {})}


def _of_gpus(found: Object, **spec: Any) -> Object | None:
    """An object of a namespace with a part of its spec, if there is one."""
    metadata = {name: found["metadata"][name] for name in ("namespace", "name")}
    return {"metadata": metadata, "spec": spec} if any(spec.values()) else None


def _quota(found: Object) -> Object | None:
    """What a quota gives of GPUs, and how much of that is in use; the API server counts what it enforces."""
    hard, used = (
        {
            key: str(value)
            for key, value in ((found.get(part) or {}).get(name) or {}).items()
            if key.removeprefix("requests.").removeprefix("limits.").startswith((GPU_RESOURCES, CLAIMS_QUOTA))
        }
        for part, name in (("spec", "hard"), ("status", "used"))
    )
    return _of_gpus(found, hard=hard, **({"used": used} if used else {}))


def _limit_range(found: Object) -> Object | None:
    rows = (found.get("spec") or {}).get("limits") or []
    return _of_gpus(
        found,
        limits=[
            row
            for row in rows
            if any(
                key.startswith(GPU_RESOURCES)
                for kind in row.values()
                if isinstance(kind, dict)
                for key in kind
            )
        ],
    )


def _if_allowed(cluster: Lists, path: str, cut: Cut) -> list[Object] | None:
    """A list that no check of a node fails without; None if it is refused, empty if the cluster has no such kind."""
    try:
        return cluster.items(path, cut)
    except ApiRefused as error:
        if error.status not in (FORBIDDEN, MISSING):
            raise
        return None if error.status == FORBIDDEN else []


def _without_bulk(found: Object) -> Object:
    """A Node or pod without what no check reads, most of its size: a cluster of thousands has to fit into memory."""
    found["metadata"].pop("managedFields", None)
    # It repeats the object, with settings that may be secret.
    (found["metadata"].get("annotations") or {}).pop("kubectl.kubernetes.io/last-applied-configuration", None)
    for part, names in (("spec", ("tolerations", "affinity")), ("status", ("images", "addresses"))):
        for name in names:
            (found.get(part) or {}).pop(name, None)
    spec = found.get("spec") or {}
    # Only device plugins are judged by their settings.
    if DEVICE_PLUGIN not in operands.components(spec):
        for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
            container.pop("env", None)
            container.pop("volumeMounts", None)
    return found


def _tenant(pod: Object) -> Object:
    """As much of a pod of somebody else as tells what it holds and reaches."""
    metadata, spec = pod["metadata"], pod["spec"]
    kept = ("name", "namespace", "uid", "ownerReferences", "deletionTimestamp")
    of_container = ("name", "resources", "securityContext", "restartPolicy")
    return {
        "metadata": {name: metadata[name] for name in kept if name in metadata},
        "spec": {
            **{name: spec[name] for name in ("nodeName", "resourceClaims", "resources") if name in spec},
            "volumes": [
                {"hostPath": row["hostPath"]} for row in spec.get("volumes") or [] if "hostPath" in row
            ],
            **{
                kind: [{name: row[name] for name in of_container if name in row} for row in spec[kind]]
                for kind in ("containers", "initContainers")
                if kind in spec
            },
        },
        "status": {
            name: value
            for name, value in (pod.get("status") or {}).items()
            if name in ("phase", "resourceClaimStatuses", "extendedResourceClaimStatus")
        },
    }


def take_settled(
    cluster: Lists,
    operands_namespaces: Mapping[str, str],
    say: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
    loaded: Mapping[str, str] | None = None,
    ours: bool = True,
) -> Snapshot:
    """The lists, once no operand is about to become ready; one that is not by the deadline is for the checks to name.

    Args:
        cluster: as of take().
        operands_namespaces: as of take().
        say: told about waiting.
        sleep: replaced in tests.
        loaded: driver of nodes that got another one a moment ago: feature discovery needs a while to describe it.
        ours: as of take().

    Raises:
        ToolError: as take().
    """
    taken, loaded = take(cluster, operands_namespaces, ours), loaded or {}
    labels = {name: view.labels for name, view in taken.nodes.items()}
    late = [*operands.starting(taken.serving(taken.system_pods)), *_outdated(labels, loaded)]
    if not late:
        return taken
    say(f"waiting for operands that start, {OPERANDS_WAIT_S:.0f} s at most: {', '.join(late)}")

    def look() -> Done[None] | NotYet:
        # Not all nodes and pods, which in a large cluster take longer than the pause between two looks.
        folders = [f"/api/v1/namespaces/{name}/pods" for name in sorted(set(operands_namespaces.values()))]
        pods = [pod for folder in folders for pod in cluster.items(folder) if not finished(pod)]
        nodes = [
            row for name in loaded for row in cluster.items(NODES, fieldSelector=f"metadata.name={name}")
        ]
        labels = {row["metadata"]["name"]: row["metadata"].get("labels") or {} for row in nodes}
        late = [*operands.starting(taken.serving(pods)), *_outdated(labels, loaded)]
        return NotYet(", ".join(late)) if late else Done(None)

    with suppress(WaitTimeout):
        wait_until("the operands to start", look, Deadline(OPERANDS_WAIT_S), OPERANDS_TICK_S, sleep)
    return take(cluster, operands_namespaces)


def _outdated(labels: Mapping[str, Mapping[str, str]], loaded: Mapping[str, str]) -> list[str]:
    """Nodes whose labels do not describe the driver that is loaded, in words."""
    late = []
    for name, version in loaded.items():
        found = labels.get(name, {DRIVER_LABEL: version})
        told = found.get(DRIVER_LABEL, version if COUNT_LABEL in found else "nothing")
        if told != version:
            late.append(f"labels of node '{name}', which tell driver '{told}'")
    return late
