"""Our device plugin on one node: started anew, so that it writes its files anew.

Pods that hold GPUs keep them: when the plugin ends, the kubelet touches no container, and withdraws the GPUs from the scheduler
until it is back (Kubernetes 1.36.3, PluginDisconnected in pkg/kubelet/cm/devicemanager); the plugin removes only its socket
(k8s-device-plugin 0.19.0, Stop in internal/plugin/server.go).
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from typing import Any

from gpusmith.cluster import operands
from gpusmith.cluster.api import Cluster, Object
from gpusmith.cluster.holders import finished
from gpusmith.cluster.managed_fields import title
from gpusmith.data.operands import DEVICE_PLUGIN
from gpusmith.errors import ToolError
from gpusmith.wait import Deadline, Done, NotYet, WaitTimeout, wait_until

TICK_S = 1.0


def restart(
    cluster: Cluster,
    namespace: str,
    node: str,
    seen_unix: float,
    timeout_s: float,
    check: bool,
    sleep: Callable[[float], None] = time.sleep,
) -> list[str]:
    """Delete its pod on a node, and wait until another one is ready; titles of the pods that were deleted.

    Args:
        cluster: the API.
        namespace: of our operands.
        node: name of the Node.
        seen_unix: when the machine was looked at, by its own clock: a plugin that started later has written its files since.
        timeout_s: until another one must be ready.
        check: only say which pod would be deleted.
        sleep: replaced in tests.

    Raises:
        ToolError: none became ready.
    """
    old = [pod for pod in _pods(cluster, namespace, node) if not _is_newer(pod, seen_unix)]
    names = [title("Pod", pod["metadata"]["name"], namespace) for pod in old]
    if check:
        return names
    for pod in old:
        path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}"
        cluster.delete(path, uid=pod["metadata"].get("uid"))
    gone = {pod["metadata"]["name"] for pod in old}

    def look() -> Done[None] | NotYet:
        pods = [pod for pod in _pods(cluster, namespace, node) if pod["metadata"]["name"] not in gone]
        wrong = [operands.problem(pod) for pod in pods]
        return Done(None) if "" in wrong else NotYet("; ".join(wrong) or "it has no pod there")

    try:
        wait_until(f"the device plugin on node '{node}'", look, Deadline(timeout_s), TICK_S, sleep)
    except WaitTimeout as error:
        raise ToolError(error.message, read_log(namespace)) from error
    return names


def read_log(namespace: str) -> str:
    """What to do about a plugin that does not come back."""
    return f"Find its pod with 'kubectl -n {namespace} get pods -o wide', and read its log."


def _pods(cluster: Cluster, namespace: str, node: str) -> list[Object]:
    """Those of our DaemonSets: another pod of that name is nobody's to delete."""
    found = cluster.items(f"/api/v1/namespaces/{namespace}/pods", fieldSelector=f"spec.nodeName={node}")
    return [pod for pod in found if _is_ours(pod) and not finished(pod)]


def _is_ours(pod: Object) -> bool:
    return operands.is_served(pod, DEVICE_PLUGIN)


def _is_newer(pod: Object, seen_unix: float) -> bool:
    """Whether the program has started since, or is about to start for the first time."""
    rows = (pod.get("status") or {}).get("containerStatuses") or []
    starts = [(row.get("state") or {}).get("running", {}).get("startedAt") for row in rows]
    if any(starts):
        return all(start is not None and _unix(start) > seen_unix for start in starts)
    return bool(operands.starting([pod]))


def _unix(time_of_api: Any) -> float:
    return dt.datetime.fromisoformat(str(time_of_api)).timestamp()
