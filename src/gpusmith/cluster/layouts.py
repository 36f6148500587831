"""Layouts in the cluster: which one a node gets, and operands of each, which stay for as long as a node has it.

A device plugin that divides GPUs does not ask who holds them: a pod that has a whole GPU gets company. So a node's layout changes
only while no pod can hold one of its GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpusmith.cluster import dra
from gpusmith.cluster.api import Cluster, Object
from gpusmith.cluster.holders import holders
from gpusmith.cluster.views import NODES, PODS
from gpusmith.data.operands import DEVICE_PLUGIN
from gpusmith.names import LAYOUT_LABEL, MANAGED_BY, MANAGER, STARTUP_TAINT
from gpusmith.upgrade import unfinished
from gpusmith.wanted.layouts import Layout, of_label, of_node

KEPT = (
    "hands out {now}, and the inventory asks for {wanted}. site.yml changes shares only on a new node, whose GPUs no pod can"
    " hold; MIG on none, and from MPS to something else on none. Run playbooks/change_layout.yml for it, which waits for the"
    " pods that hold its GPUs; or set the inventory back."
)
KINDS = {
    "daemonsets": ("apps/v1", "DaemonSet"),
    "configmaps": ("v1", "ConfigMap"),
    "serviceaccounts": ("v1", "ServiceAccount"),
}
OF_CLUSTER = {
    "clusterrolebindings": ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    "clusterroles": ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    "deviceclasses": (dra.VERSION, "DeviceClass"),
}
"""Without a namespace."""


def of_now(cluster: Cluster, node: Object, wanted: Layout, startup: str) -> tuple[str, str]:
    """The label that a node is to have for its layout now, and what a person should know if that is not the wanted one.

    Args:
        cluster: the API.
        node: as it is.
        wanted: by the inventory.
        startup: key of the taint of a new node that it gets with the label; empty if it gets none.
    """
    now = str((node["metadata"].get("labels") or {}).get(LAYOUT_LABEL) or "")
    has = of_label(now)
    # MIG is made on the machine, and what MPS leaves there is taken away by the change.
    on_machine = bool(wanted.profile or (has and (has.profile or has.mps)))
    if now == wanted.label or (not on_machine and _is_nobodys(cluster, node, startup)):
        return wanted.label, ""
    words = has.words if has else f"GPUs by label '{LAYOUT_LABEL}={now}', which nothing serves"
    return now, KEPT.format(now=words, wanted=wanted.words)


def _is_nobodys(cluster: Cluster, node: Object, startup: str) -> bool:
    """Whether no pod holds a GPU of a node, and none can get one."""
    taints = {row.get("key") for row in (node.get("spec") or {}).get("taints") or []}
    if not (startup or STARTUP_TAINT in taints):
        return False
    pods = cluster.items(PODS, fieldSelector=f"spec.nodeName={node['metadata']['name']}")
    return not holders(pods, dra.read(cluster, pods))


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
    folders = [
        (f"/{'apis' if '/' in version else 'api'}/{version}/namespaces/{namespace}/{plural}", version, kind)
        for namespace in namespaces
        for plural, (version, kind) in KINDS.items()
    ]
    folders += [
        (f"/apis/{version}/{plural}", version, kind)
        for plural, (version, kind) in OF_CLUSTER.items()
        if namespaces and (version != dra.VERSION or cluster.serves(dra.API))
    ]
    found = [
        {"apiVersion": version, "kind": kind, "metadata": row["metadata"]}
        for folder, version, kind in folders
        for row in cluster.items(folder, labelSelector=f"{LAYOUT_LABEL},{MANAGED_BY}={MANAGER}")
        if (kind, row["metadata"]["name"]) not in wanted
    ]
    if not found:
        return []
    served = {label for row in cluster.items(NODES) for label in _served(row)}
    return [row for row in found if row["metadata"]["labels"][LAYOUT_LABEL] not in served]


def _served(node: Object) -> set[str]:
    """Layouts that a node has, or may go to or back to, in a change that is not finished."""
    change = unfinished.open_one(node)
    return {of_node(node).label, *((change.origin, change.target) if change else ())}
