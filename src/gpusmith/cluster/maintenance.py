"""Taking the pods off a node: never GPUs from who holds them, and only as disruption budgets allow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gpusmith.cluster import dra
from gpusmith.cluster.api import CONFLICT, MISSING, ApiRefused, Cluster, Object
from gpusmith.cluster.holders import finished, holders
from gpusmith.cluster.retries import PASSING
from gpusmith.cluster.views import PODS, is_cordoned, node_path
from gpusmith.errors import GpusmithError
from gpusmith.names import MANAGER
from gpusmith.wait import Deadline, Done, NotYet, WaitTimeout, wait_until
from gpusmith.wording import quoted

TICK_S = 2.0
REMOVAL_TICK_S = 0.5
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
MIRROR = "kubernetes.io/config.mirror"
"""Annotation of pods that the kubelet runs from its own files."""
AGAIN = "then run this again"


class NodeInUse(GpusmithError):  # noqa: N818
    """Somebody needs the node."""


@dataclass
class Emptied:
    """What became of a node.

    Attributes:
        present: the cluster has it.
        cordoned: it took pods, and takes none now.
        evicted: pods that were taken off, as namespace/name.
    """

    present: bool = True
    cordoned: bool = False
    evicted: tuple[str, ...] = ()


def empty(
    cluster: Cluster,
    name: str,
    timeout_s: float,
    check: bool = False,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Emptied:
    """Cordon a node and take its pods off; those of DaemonSets, and the kubelet's own, stay.

    Args:
        cluster: the API.
        name: of the Node.
        timeout_s: until all of them must be gone.
        check: say only what would be done.
        sleep: replaced in tests.
        clock: replaced in tests.

    Raises:
        NodeInUse: pods hold GPUs, nobody would make one of the pods anew, or it is of the control plane; the node is as it was.
        ToolError: the cluster does not answer or refuses.
        GpusmithError: pods are still there at the end; the node stays cordoned.
    """
    node = cluster.get(node_path(name))
    pods = pods_of(cluster, name)
    _refuse(cluster, name, pods)
    if node is None:
        return Emptied(present=False)
    _refuse_control_plane(node)
    takes_pods = not is_cordoned(node)
    if check:
        return Emptied(True, takes_pods, tuple(_title(pod) for pod in movable(pods)))
    if takes_pods:
        _cordon(cluster, name, True)
        try:
            # One may have been placed between the look and the cordon; from now on none is.
            _refuse(cluster, name, pods_of(cluster, name))
        except BaseException:
            _cordon(cluster, name, False)
            raise
    return Emptied(True, takes_pods, _drain(cluster, name, timeout_s, sleep, clock))


def must_be_free(cluster: Cluster, name: str) -> bool:
    """Refuse a node that runs pods which must not be evicted; change nothing. False if the cluster has no such node.

    Raises:
        NodeInUse: as of empty().
        ToolError: as of empty().
    """
    node = cluster.get(node_path(name))
    # Also if the Node object was deleted: its pods run on for a while.
    _refuse(cluster, name, pods_of(cluster, name))
    if node is not None:
        _refuse_control_plane(node)
    return node is not None


def pods_of(cluster: Cluster, node: str) -> list[Object]:
    """All pods on a node."""
    return cluster.items(PODS, fieldSelector=f"spec.nodeName={node}")


def movable(pods: Iterable[Object]) -> list[Object]:
    """Those that a drain takes off."""
    return [
        pod
        for pod in pods
        if MIRROR not in (pod["metadata"].get("annotations") or {})
        and not any(row.get("kind") == "DaemonSet" for row in _owners(pod))
    ]


def _refuse(cluster: Cluster, node: str, pods: Sequence[Object]) -> None:
    if found := holders(pods, dra.read(cluster, pods, node)):
        raise NodeInUse(
            f"Node '{node}' runs pods that hold GPUs: {', '.join(holder.words for holder in found)}. Nothing was changed.",
            f"Wait until they end, or delete them, {AGAIN}.",
        )
    if alone := [pod for pod in movable(pods) if not _owners(pod) and not finished(pod)]:
        raise NodeInUse(
            f"Node '{node}' runs pods that no controller would make anew: {quoted(map(_title, alone))}. Nothing was changed.",
            f"Delete them if nobody needs them, {AGAIN}.",
        )


def _refuse_control_plane(node: Object) -> None:
    # Its API server and etcd are static pods, which _refuse() does not count.
    if CONTROL_PLANE in (node["metadata"].get("labels") or {}):
        raise NodeInUse(
            f"Node '{node['metadata']['name']}' is of the control plane, whose data would be lost. Nothing was changed.",
            "Take it out of the control plane first, by kubeadm's own steps.",
        )


def _drain(
    cluster: Cluster,
    name: str,
    timeout_s: float,
    sleep: Callable[[float], None],
    clock: Callable[[], float],
) -> tuple[str, ...]:
    evicted: list[str] = []

    def look() -> Done[None] | NotYet:
        left = []
        for pod in movable(pods_of(cluster, name)):
            why = "it is ending" if pod["metadata"].get("deletionTimestamp") else _evict(cluster, pod)
            if _title(pod) not in evicted:
                evicted.append(_title(pod))
            left.append(f"'{_title(pod)}': {why}")
        return NotYet("; ".join(left)) if left else Done(None)

    try:
        wait_until(f"the pods of node '{name}' to be gone", look, Deadline(timeout_s, clock), TICK_S, sleep)
    except WaitTimeout as error:
        raise GpusmithError(
            f"{error.message.rstrip('.')}. The node is cordoned.",
            f"Look at the pods and their disruption budgets, {AGAIN}; or 'kubectl uncordon {name}'.",
        ) from error
    return tuple(evicted)


def _evict(cluster: Cluster, pod: Object) -> str:
    """What is to be said of a pod that was asked to go."""
    try:
        cluster.evict(pod["metadata"]["namespace"], pod["metadata"]["name"])
    except ApiRefused as error:
        if error.status == MISSING:
            return "it is gone"
        if error.status == CONFLICT or error.status in PASSING:
            return error.message.rstrip(".")
        raise
    return "it is asked to end"


def _cordon(cluster: Cluster, name: str, cordoned: bool) -> None:
    cluster.patch(node_path(name), {"spec": {"unschedulable": True if cordoned else None}}, MANAGER)


def remove(
    cluster: Cluster,
    name: str,
    timeout_s: float,
    check: bool = False,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> bool:
    """Delete the Node object of a machine that has left, and then what is left of its pods; False if there was neither.

    The cluster itself deletes them after a minute. A machine that joins under that name before would be said to run them.

    Args:
        cluster: the API.
        name: of the Node.
        timeout_s: until the pods must be gone.
        check: change nothing.
        sleep: replaced in tests.
        clock: replaced in tests.

    Raises:
        ToolError: the cluster does not answer or refuses.
        GpusmithError: pods are still there at the end.
    """
    # Before its pods: while there is a Node, its DaemonSets make new ones.
    there = cluster.delete(node_path(name), dry_run=check)
    left = pods_of(cluster, name)
    if check or not left:
        return there or bool(left)

    def look() -> Done[None] | NotYet:
        pods = pods_of(cluster, name)
        for pod in pods:
            metadata = pod["metadata"]
            # By its UID: a new pod of that name may run elsewhere by now.
            cluster.delete(
                f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}",
                grace_s=0,
                uid=metadata.get("uid"),
            )
        return NotYet(quoted(map(_title, pods))) if pods else Done(None)

    try:
        wait_until(
            f"the pods of node '{name}' to be gone", look, Deadline(timeout_s, clock), REMOVAL_TICK_S, sleep
        )
    except WaitTimeout as error:
        raise GpusmithError(
            f"{error.message.rstrip('.')}. The node itself has left.",
            "Look at their finalizers, and delete the pods before the machine joins again.",
        ) from error
    return True


def _owners(pod: Object) -> list[dict[str, Any]]:
    return list(pod["metadata"].get("ownerReferences") or [])


def _title(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
