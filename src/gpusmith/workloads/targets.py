"""Which nodes get workloads, why another gets none, and what others do to its GPUs meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpusmith.cluster import dra
from gpusmith.cluster.api import Cluster
from gpusmith.cluster.views import NODES, PODS, NodeView, view_of
from gpusmith.names import CORDON_TAINT, GPU_TAINT, PRIORITY_CLASS, READINESS_TAINTS, RUN_LABEL, STARTUP_TAINT
from gpusmith.upgrade import unfinished
from gpusmith.wanted.layouts import WHOLE, Layout
from gpusmith.wanted.node import NodeWanted
from gpusmith.wanted.offers import Device, Offers, gpus_of
from gpusmith.workloads.jobs import Run


@dataclass(frozen=True)
class Target:
    """A node to run workloads on.

    Attributes:
        host: what the inventory says.
        view: its Node object; None if the cluster has none.
        devices: what its pods are given, by the host's NVML; None if its record could not be read.
        runtime_classes: names that the cluster has.
        maintenance: ID of the upgrade that this run tests nodes for; empty if it tests for none.
        budget: how many GPUs the run may take at the same time; 0 for no limit.
        yields: whether the suite's pods have a priority with which they give way to everybody.
        recorded: the machine of a node that others set up was asked, so that its NVML is what pods are compared with.
    """

    host: NodeWanted
    view: NodeView | None
    devices: frozenset[Device] | None
    runtime_classes: frozenset[str] = frozenset()
    maintenance: str = ""
    budget: int = 0
    yields: bool = True
    recorded: bool = False

    @property
    def by_pods(self) -> bool:
        """Whether its pods are compared with each other: nobody asks the machine."""
        return not (self.host.managed or self.recorded)

    @property
    def gpus(self) -> int:
        """How many its Node hands out at the most."""
        return gpus_of(self.view.allocatable, self.offers) if self.view else 0

    @property
    def layout(self) -> Layout:
        """How its Node hands them out."""
        return self.view.layout if self.view else WHOLE

    @property
    def offers(self) -> Offers:
        """What its Node hands out; nothing without one."""
        return self.view.offers(self.host.gpu_count) if self.view else ()

    @property
    def tolerated(self) -> tuple[str, ...]:
        """Keys of taints behind which it is tested: ours, the inventory's, and those that may wait for the proof."""
        waiting = (row.get("key", "") for row in (self.view.taints if self.view else ()))
        return tuple(
            dict.fromkeys(
                [
                    GPU_TAINT,
                    STARTUP_TAINT,
                    *(str(row["key"]) for row in self.host.kubernetes.taints),
                    *(key for key in waiting if key.startswith(READINESS_TAINTS)),
                ]
            )
        )

    @property
    def in_maintenance(self) -> bool:
        """Whether its cordon is the upgrade's own, as its ledger says now; a rollback goes on behind the cordon of others."""
        if self.view is None:
            return False
        found = unfinished.of_run(_marks(self.view), self.maintenance)
        return found is not None and (found.cordoned or found.rollback)


@dataclass(frozen=True)
class NotTested:
    """Why no workload was started on a node.

    Attributes:
        reason: one sentence.
        is_failure: the node is broken, and not merely in use or kept back.
        step: what frees the node, where waiting does not.
    """

    reason: str
    is_failure: bool
    step: str = "Run the suite again when the node is free."


Look = Callable[[Target], NodeView | None]
"""Reads a target's Node object anew."""


def looker(cluster: Cluster, run: Run) -> Look:
    """Looks at a node by two lists, and two of Dynamic Resource Allocation where it is served.

    Args:
        cluster: the API.
        run: whose own pods do not count as holders.
    """

    def look(target: Target) -> NodeView | None:
        name = target.view.name if target.view else target.host.node_name
        nodes = cluster.items(NODES, fieldSelector=f"metadata.name={name}")
        if not nodes:
            return None
        pods = cluster.items(PODS, fieldSelector=f"spec.nodeName={name}")
        others = [pod for pod in pods if not _is_of(pod, run)]
        claims = dra.read(cluster, others, name, offers=True)
        return view_of(nodes[0], others, target.host.operands.namespace, claims)

    return look


def _is_of(pod: Mapping[str, Any], run: Run) -> bool:
    metadata = pod["metadata"]
    mine = not run.within or (metadata.get("labels") or {}).get(RUN_LABEL) == run.id
    return mine and bool(metadata["namespace"] == run.namespace)


def by_others(before: Target, now: NodeView | None) -> str:
    """What others did to a node's GPUs while it was tested; empty if that explains nothing.

    Args:
        before: the node as it was.
        now: the node as it is.
    """
    why = why_not(replace(before, view=now))
    if why is not None:
        return "" if why.is_failure else why.reason.removeprefix("Not tested: ").rstrip(".")
    assert before.view is not None
    assert now is not None
    had, has = (Counter(view.busy(view.offers(before.host.gpu_count))) for view in (before.view, now))
    said = [
        f"{what} by {', '.join(f'{title} ({count})' for title, count in sorted(rows.items()))}"
        for what, rows in (("taken", has - had), ("freed", had - has))
        if rows
    ]
    return f"{now.layout.things} of node '{now.name}' were {' and '.join(said)} meanwhile" if said else ""


def why_not(target: Target) -> NotTested | None:
    """Why a node cannot be given workloads; None if it can."""
    view, host = target.view, target.host
    if view is None:
        return NotTested(f"Not tested: the cluster has no node for host '{host.name}'.", True)
    if view.unschedulable and not target.in_maintenance:
        return _cordoned(view, host)
    if not view.ready:
        return NotTested(f"Not tested: node '{view.name}' is not Ready: {'; '.join(view.conditions)}.", True)
    return (
        _tainted(target, view)
        or _lent(view, host)
        or _without_free_gpus(view, host)
        or _not_alone(target, view)
        or _divided(view, host)
        or over_budget(f"node '{view.name}' has", target.gpus, target.budget)
    )


def over_budget(has: str, gpus: int, budget: int) -> NotTested | None:
    """What is larger than the run may be at any time.

    Args:
        has: what it is, in words, before the number.
        gpus: that it has.
        budget: of the run; 0 for no limit.
    """
    if not budget or gpus <= budget:
        return None
    return NotTested(
        f"Not tested: {has} {gpus} GPUs, and --gpu-budget allows {budget}.",
        False,
        "Run the suite again with a larger budget.",
    )


def _divided(view: NodeView, host: NodeWanted) -> NotTested | None:
    """What others divide has no whole GPUs to tell from each other; for claims, its rights are too few."""
    how = "" if host.managed else view.divided(view.offers(host.gpu_count))
    if view.layout.by_claims and not host.managed:
        how = f"hands out {view.layout.words}"
    if not how:
        return None
    return NotTested(f"Not tested: node '{view.name}' {how}.", False, "Test nodes that hand out whole GPUs.")


def _not_alone(target: Target, view: NodeView) -> NotTested | None:
    """Without its priority, a pod of the suite could take the place of one that waits for a GPU."""
    held = view.busy(target.offers)
    if target.yields or not held:
        return None
    return NotTested(
        f"Not tested: pods hold GPUs of node '{view.name}', {', '.join(held)}, and without PriorityClass '{PRIORITY_CLASS}' the"
        " suite's pods do not give way to others.",
        False,
        "Have an administrator make the class, once, as docs/any_cluster.md says; or run the suite again when the node is free.",
    )


def _marks(view: NodeView) -> dict[str, Any]:
    """As much of a Node object as a ledger is read from."""
    return {"metadata": {"name": view.name, "annotations": view.annotations}}


def _cordoned(view: NodeView, host: NodeWanted) -> NotTested:
    reason = f"Not tested: node '{view.name}' is cordoned"
    upgrade = unfinished.refusal(host.name, _marks(view))
    if upgrade is not None:
        why = upgrade.message.removeprefix(f"Node '{view.name}': ")
        return NotTested(f"{reason}: {why}", False, upgrade.hint)
    return NotTested(
        f"{reason}.",
        False,
        f"If it may take pods again: kubectl uncordon {view.name}; then run the suite again.",
    )


def _tainted(target: Target, view: NodeView) -> NotTested | None:
    ours = {*target.tolerated, CORDON_TAINT} if target.in_maintenance else {*target.tolerated}
    foreign = [
        row
        for row in view.taints
        if row.get("effect") in ("NoSchedule", "NoExecute") and row.get("key") not in ours
    ]
    if not foreign:
        return None
    named = ", ".join(f"{row.get('key')}={row.get('value') or ''}:{row.get('effect')}" for row in foreign)
    removed = " ".join(f"{row.get('key')}:{row.get('effect')}-" for row in foreign)
    if not target.host.managed:
        return NotTested(
            f"Not tested: node '{view.name}' has taint {named}, which not all GPU nodes have.",
            False,
            "If pods may run behind it, give its key with --tolerate; else run the suite again when its owner has taken it off.",
        )
    return NotTested(
        f"Not tested: node '{view.name}' has taint {named}, which is not the inventory's.",
        False,
        f"Add it to 'kubernetes_node_taints' in the inventory if it is meant; if not: kubectl taint node {view.name}"
        f" {removed}; then run the suite again.",
    )


def _lent(view: NodeView, host: NodeWanted) -> NotTested | None:
    """The device plugin gives out any of its GPUs, also one that a pod holds by a claim or by another resource."""
    lent = view.lent_twice(view.offers(host.gpu_count), host.gpu_count)
    if not lent:
        return None
    return NotTested(
        f"Not tested: the device plugin of node '{view.name}' offers GPUs that are held by"
        f" {', '.join(holder.words for holder in lent)}.",
        False,
        "Run the suite again when these pods have ended, or leave the node's GPUs to one owner; see cluster.gpu-owners and"
        " cluster.gpu-capacity.",
    )


def _without_free_gpus(view: NodeView, host: NodeWanted) -> NotTested | None:
    offers = view.offers(host.gpu_count)
    if not any(view.allocatable.get(offer.resource) for offer in offers):
        return NotTested(f"Not tested: node '{view.name}' has no allocatable GPU.", True)
    if not any(map(view.free, offers)):
        held = ", ".join(f"{title} ({count})" for title, count in view.busy(offers).items())
        count = gpus_of(view.allocatable, offers) * view.layout.shares
        return NotTested(
            f"Not tested: all {count} {view.layout.things} of node '{view.name}' are busy, held by {held}.",
            False,
        )
    if view.layout.mps and (busy := view.busy(offers)):
        return NotTested(
            f"Not tested: {', '.join(busy)} on node '{view.name}' may be clients of MPS. It serves one user (UID) at a time, and"
            " the suite's programs, which run as one of their own, would wait for them.",
            False,
        )
    return None
