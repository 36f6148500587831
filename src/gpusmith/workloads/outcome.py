"""What came of one node: a finding per check, whatever happens to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpusmith.checks.findings import Finding, Outcome, Skip
from gpusmith.checks.register import Reads, of_tier
from gpusmith.cluster.views import NodeView
from gpusmith.wanted.node import NodeWanted
from gpusmith.workloads.targets import NotTested, Target


@dataclass
class NodeOutcome:
    """What came of one node.

    Attributes:
        findings: by check id.
        tested: UUIDs that the CUDA workload ran on.
        reason: why the node was not tested at all; empty if it was.
        kept_back: somebody uses the node or keeps it back, so that what was not tested is nobody's fault.
        view: the Node object as it was when its GPUs were counted; None if it was not looked at.
    """

    findings: dict[str, Finding] = field(default_factory=dict)
    tested: tuple[str, ...] = ()
    reason: str = ""
    kept_back: bool = False
    view: NodeView | None = None


def per_node() -> tuple[str, ...]:
    """Ids of the checks that each node gets a finding of."""
    return tuple(check.id for check in of_tier("workloads") if check.per_node and check.reads is Reads.RUN)


def not_tested(target: Target, why: NotTested) -> NodeOutcome:
    """What is recorded for a node that got no workload: never a pass."""
    findings = {check: not_now(check, target.host, why) for check in per_node()}
    return NodeOutcome(findings, (), why.reason, not why.is_failure, target.view)


def not_now(check: str, host: NodeWanted, why: NotTested) -> Finding:
    """Of a check that was not made because the node could not be given GPUs to test."""
    outcome, skip = (Outcome.FAILED, None) if why.is_failure else (Outcome.SKIPPED, Skip.LEFT_OUT)
    step = "See the checks of the nodes and cluster tiers." if why.is_failure else why.step
    return Finding(check, host.name, outcome, why.reason, {}, step, host.simulated, skip=skip)


def not_applicable(
    check: str, host: NodeWanted, cause: str, evidence: Mapping[str, Any] | None = None
) -> Finding:
    """Of a check that can prove nothing on such a node.

    Args:
        check: its id.
        host: what the inventory says of the node.
        cause: why it cannot.
        evidence: what was seen all the same.
    """
    said = f"Node '{host.name}': not applicable: {cause}."
    skip = Skip.NOT_APPLICABLE
    return Finding(
        check, host.name, Outcome.SKIPPED, said, evidence or {}, simulated=host.simulated, skip=skip
    )


def too_few_nodes(check: str, host: NodeWanted, needed: int, left: Sequence[str], of_run: int) -> Finding:
    """Of a check on several nodes at once, on a node that was free without enough others.

    Args:
        check: its id.
        host: what the inventory says of the node.
        needed: how many nodes the check needs.
        left: names of the nodes that make no group.
        of_run: how many nodes the run is about; with fewer than needed, the check does not apply.
    """
    skip = Skip.LEFT_OUT if of_run >= needed else Skip.NOT_APPLICABLE
    names = ", ".join(f"'{name}'" for name in left)
    cause = f"Not tested: {needed} nodes with free GPUs are needed at the same time; left without others: {names}."
    step = "Run the suite again when more nodes are free." if skip is Skip.LEFT_OUT else ""
    return Finding(check, host.name, Outcome.SKIPPED, cause, {}, step, host.simulated, skip=skip)


def not_made(check: str, host: NodeWanted, cause: str, because: Finding) -> Finding:
    """Of a check that was not made because of how another one came out.

    Args:
        check: its id.
        host: what the inventory says of the node.
        cause: why it was not made.
        because: a failure fails it; what could not be asked or was left out does the same to it.
    """
    said = f"Node '{host.name}': not tested: {cause}"
    if because.outcome is Outcome.FAILED:
        return Finding(check, host.name, Outcome.FAILED, said, simulated=host.simulated)
    skip = because.skip or Skip.BLOCKED
    return Finding(check, host.name, Outcome.SKIPPED, said, simulated=host.simulated, skip=skip)
