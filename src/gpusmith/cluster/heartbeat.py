"""Whether a kubelet lives: its node's Lease, which it renews by its own clock, and the condition Ready."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from gpusmith.cluster.api import Cluster
from gpusmith.cluster.views import node_path, readiness, told_of
from gpusmith.wait import Deadline, Done, NotYet, wait_until

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
TICK_S = 1.0


def renewed(lease: Mapping[str, Any] | None) -> float:
    """When a node's Lease was renewed, in Unix time; 0 if it never was."""
    text = ((lease or {}).get("spec") or {}).get("renewTime")
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def is_ready(cluster: Cluster, node: str) -> bool:
    """Whether a node says that it is Ready."""
    return readiness(cluster.get(node_path(node))).ready


def wait(
    cluster: Cluster,
    node: str,
    since: float,
    deadline: Deadline,
    *,
    ready: bool,
    anew: bool,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until a node gave a sign of life.

    Args:
        cluster: the API.
        node: name of the Node.
        since: Unix time, by the node's clock, after which its Lease must have been renewed.
        deadline: until when.
        ready: whether it must be Ready.
        anew: whether it must have said since then that it is Ready: a kubelet tells at its start, and then every five minutes.
        sleep: replaced in tests.

    Raises:
        WaitTimeout: it did not.
        ToolError: the cluster does not answer.
    """

    def look() -> Done[None] | NotYet:
        if renewed(cluster.get(f"{LEASES}/{node}")) <= since:
            return NotYet("its Lease was not renewed since the restart")
        if not ready:
            return Done(None)
        found = cluster.get(node_path(node))
        # Kubernetes tells whole seconds.
        if anew and (told_of(found or {}).heartbeat_unix or 0.0) < int(since):
            return NotYet("the kubelet has not reported since the restart")
        judged = readiness(found)
        return Done(None) if judged.ready else NotYet(judged.seen.rstrip("."))

    wait_until(f"a heartbeat of node '{node}'", look, deadline, TICK_S, sleep)
