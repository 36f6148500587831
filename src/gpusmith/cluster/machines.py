"""What the cluster says of the machines behind its Nodes."""

from __future__ import annotations

from collections.abc import Iterable

from gpusmith.cluster.api import ApiRefused, Cluster
from gpusmith.cluster.views import NODES, told_of
from gpusmith.expect.identity import Machine, Nodes
from gpusmith.probe.kubernetes import digests

ROOT = "/api/v1/namespaces/kube-system/configmaps/kube-root-ca.crt"
"""Kubernetes puts the certificates of its API server there."""


def nodes_for(cluster: Cluster, machines: Iterable[Machine]) -> tuple[Nodes, tuple[str, ...]]:
    """What the judge of machines needs to know of the cluster, and which of their nodes are cordoned.

    Raises:
        ToolError: the cluster does not answer, or does not list its nodes.
    """
    machines = list(machines)
    rows = {row["metadata"]["name"]: row for row in cluster.items(NODES)}
    lost = any(machine.name is not None and machine.node not in rows for machine in machines)
    nodes = Nodes(
        {name: told_of(row) for name, row in rows.items()},
        # Asked for the one case in which it decides.
        _authorities(cluster) if lost else frozenset(),
    )
    wanted = {machine.node for machine in machines}
    cordoned = [
        name for name in sorted(wanted & set(rows)) if (rows[name].get("spec") or {}).get("unschedulable")
    ]
    return nodes, tuple(cordoned)


def _authorities(cluster: Cluster) -> frozenset[str]:
    try:
        found = cluster.get(ROOT) or {}
    except ApiRefused:
        return frozenset()
    return frozenset(digests(str((found.get("data") or {}).get("ca.crt") or "")))
