"""Operands of layouts: each layout has its own, which stay for as long as a node has it."""

from __future__ import annotations

from collections.abc import Sequence

from gpusmith.cluster.api import Cluster, Object
from gpusmith.cluster.views import NODES
from gpusmith.data.operands import DEVICE_PLUGIN
from gpusmith.names import LAYOUT_LABEL, MANAGED_BY, MANAGER

KINDS = {"daemonsets": ("apps/v1", "DaemonSet"), "configmaps": ("v1", "ConfigMap")}


def left(cluster: Cluster, objects: Sequence[Object]) -> list[Object]:
    """Operands of layouts that the inventory does not ask for any more, and that no node has.

    Args:
        cluster: the API.
        objects: all that is applied; without our device plugin among them, layouts are nobody's.
    """
    namespaces = {
        row["metadata"]["namespace"]
        for row in objects
        if (row["kind"], row["metadata"]["name"]) == ("DaemonSet", DEVICE_PLUGIN)
    }
    wanted = {(row["kind"], row["metadata"]["name"]) for row in objects}
    found = [
        {"apiVersion": version, "kind": kind, "metadata": row["metadata"]}
        for namespace in namespaces
        for plural, (version, kind) in KINDS.items()
        for row in cluster.items(
            f"/{'apis' if '/' in version else 'api'}/{version}/namespaces/{namespace}/{plural}",
            labelSelector=f"{LAYOUT_LABEL},{MANAGED_BY}={MANAGER}",
        )
        if (kind, row["metadata"]["name"]) not in wanted
    ]
    if not found:
        return []
    served = {(row["metadata"].get("labels") or {}).get(LAYOUT_LABEL) for row in cluster.items(NODES)}
    return [row for row in found if row["metadata"]["labels"][LAYOUT_LABEL] not in served]
