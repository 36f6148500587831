"""What the cluster says of the machines behind its Nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpusmith.cluster.api import ApiRefused, Cluster, Object
from gpusmith.cluster.views import is_cordoned, nodes_of, told_of
from gpusmith.errors import Refusal
from gpusmith.expect.identity import Machine, Nodes
from gpusmith.probe.kubernetes import digests
from gpusmith.upgrade import unfinished

ROOT = "/api/v1/namespaces/kube-system/configmaps/kube-root-ca.crt"
"""Kubernetes puts the certificates of its API server there."""


@dataclass(frozen=True)
class Seen:
    """What one list of Nodes says.

    Attributes:
        objects: all Node objects by name.
        nodes: what the judge of machines needs to know of them.
        cordoned: those of the machines that take no pods.
        upgrading: by host, why its node is to be left alone: a driver upgrade of it is not finished.
    """

    objects: Mapping[str, Object]
    nodes: Nodes
    cordoned: tuple[str, ...]
    upgrading: Mapping[str, Refusal]


def nodes_for(cluster: Cluster, machines: Iterable[Machine]) -> Seen:
    """What the cluster says of these machines.

    Raises:
        ToolError: the cluster does not answer, or does not list its nodes.
    """
    machines = list(machines)
    rows = {row["metadata"]["name"]: row for row in nodes_of(cluster)}
    lost = any(machine.name is not None and machine.node not in rows for machine in machines)
    nodes = Nodes(
        {name: told_of(row) for name, row in rows.items()},
        # Asked for the one case in which it decides.
        _authorities(cluster) if lost else frozenset(),
    )
    wanted = {machine.node for machine in machines}
    cordoned = [name for name in sorted(wanted & set(rows)) if is_cordoned(rows[name])]
    upgrading = {
        machine.host: refused
        for machine in machines
        # The ledger of a machine that was installed anew tells of what is gone: its join drops it.
        if machine.name is not None
        and machine.node in rows
        and (refused := unfinished.refusal(machine.host, rows[machine.node]))
    }
    return Seen(rows, nodes, tuple(cordoned), upgrading)


def _authorities(cluster: Cluster) -> frozenset[str]:
    try:
        found = cluster.get(ROOT) or {}
    except ApiRefused:
        return frozenset()
    return frozenset(digests(str((found.get("data") or {}).get("ca.crt") or "")))
