"""Workloads of several nodes: which nodes make a group, and which node of a group that failed is to blame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from gpusmith.checks.findings import Finding, Outcome
from gpusmith.workloads.budget import Budget
from gpusmith.workloads.node import NodeUnderTest
from gpusmith.workloads.outcome import not_made, not_now, too_few_nodes
from gpusmith.workloads.register import Workload
from gpusmith.workloads.targets import over_budget
from gpusmith.workloads.turn import Turn, applies, is_ready, pods_of, unfit

Group = Sequence[NodeUnderTest]


def run(pool: Budget, workload: Workload, nodes: Group, of_run: int) -> None:
    """A workload of several nodes, once for each group of nodes that are free; groups have no node in common.

    Args:
        pool: runs groups at the same time, as many as the budget has room for.
        workload: of several nodes.
        nodes: all that were tested by themselves.
        of_run: how many nodes the run is about.
    """
    tested = [node for node in nodes if not node.outcome.reason and applies(workload, node)]
    # Nobody waits for nodes that it is nothing for.
    of_run -= sum(bool(unfit(workload, node)) for node in nodes)
    # With fewer nodes than a group has, none needs to be looked at again.
    free = tested if of_run < workload.nodes else [node for node in tested if _may_join(workload, node)]
    # Like with like, so that a group says something about its fabric.
    alike = sorted(free, key=lambda node: node.host.gpu_model)
    groups, rest = grouped(alike, workload.nodes, workload.up_to)
    for node in rest:
        names = [row.host.name for row in rest]
        node.record(too_few_nodes(workload.check, node.host, workload.nodes, names, of_run))
    groups = [group for group in groups if _is_within(workload, group)]
    list(pool.map(partial(_on_group, workload), groups))
    _blame(pool, workload, groups)


def _may_join(workload: Workload, node: NodeUnderTest) -> bool:
    """Whether a node is ready, and passed by itself: for one that fails, its group would wait, and be blamed."""
    by_itself = (node.findings[name] for name in workload.after if name in node.findings)
    # What blocks its followers is told when it is asked whether it is ready.
    rows = (found for found in by_itself if found.check not in node.blocked)
    failed = next((found for found in rows if found.outcome is Outcome.FAILED), None)
    if failed is not None:
        node.record(not_made(workload.check, node.host, f"it fails by itself; see {failed.check}.", failed))
    return failed is None and is_ready(workload, node)


def _is_within(workload: Workload, group: Group) -> bool:
    """Whether the run may take so many GPUs at the same time; if not, the nodes' findings say so."""
    gpus = sum(node.target.gpus for node in group)
    why = over_budget("the nodes of a group have", gpus, group[0].run.gpu_budget)
    for node in group if why else ():
        assert why is not None
        node.record(not_now(workload.check, node.host, why))
    return why is None


def grouped(free: Group, size: int, up_to: int = 0) -> tuple[list[list[NodeUnderTest]], list[NodeUnderTest]]:
    """Groups of a size, the last ones larger where nodes would be left over, and who is left over.

    Args:
        free: nodes.
        size: of a group.
        up_to: how many nodes a group may have; only 'size' if that is more.
    """
    groups = [list(free[n : n + size]) for n in range(0, len(free) - size + 1, size)]
    rest = list(free[len(groups) * size :])
    for group in reversed(groups):
        while rest and len(group) < up_to:
            group.append(rest.pop(0))
    return groups, rest


def _on_group(workload: Workload, group: Group) -> None:
    try:
        Turn(workload, [pods_of(workload, node) for node in group]).take()
    finally:
        for node in group:
            node.release()


# --- which node is to blame ------------------------------------------------------------------------------------


def _blame(pool: Budget, workload: Workload, groups: Sequence[Group]) -> None:
    """Each node of a group that failed once more, with a node of a group that passed."""
    failed = [group for group in groups if _outcome(workload, group[0]) is Outcome.FAILED]
    good = [node for group in groups if _outcome(workload, group[0]) is Outcome.PASSED for node in group]
    if not failed or not good:
        return
    suspects = [node for group in failed for node in group]
    again: dict[str, tuple[str, Finding]] = {}
    for start in range(0, len(suspects), len(good)):
        pairs = list(zip(suspects[start : start + len(good)], good, strict=False))
        for suspect, partner, found in pool.map(partial(_pair, workload), pairs):
            again[suspect.host.name] = partner.host.name, found
    for group in failed:
        for node, finding in zip(group, verdicts(_findings(workload, group), again), strict=True):
            node.record(finding)


def _outcome(workload: Workload, node: NodeUnderTest) -> Outcome:
    return node.findings[workload.check].outcome


def _findings(workload: Workload, group: Group) -> list[Finding]:
    return [node.findings[workload.check] for node in group]


def _pair(
    workload: Workload, pair: tuple[NodeUnderTest, NodeUnderTest]
) -> tuple[NodeUnderTest, NodeUnderTest, Finding]:
    """What comes of a pair; what the two nodes have found so far stays."""
    before = _findings(workload, pair)
    # Both are asked, so that what keeps one back is never taken for a fault of the other.
    ready = [is_ready(workload, node) for node in pair]
    if all(ready):
        _on_group(workload, pair)
    suspect, partner = pair
    found = suspect.findings[workload.check]
    for node, finding in zip(pair, before, strict=True):
        node.record(finding)
    return suspect, partner, found


def verdicts(failed: Sequence[Finding], again: dict[str, tuple[str, Finding]]) -> list[Finding]:
    """The findings of a group that failed, after each of its nodes was tried with a node of a group that passed.

    Args:
        failed: finding of each node.
        again: by its name, the node that it was tried with, and what came of that.
    """
    outcomes = {row.target: again[row.target][1].outcome for row in failed}
    if any(outcome not in (Outcome.FAILED, Outcome.PASSED) for outcome in outcomes.values()):
        return list(failed)
    bad = [name for name, outcome in outcomes.items() if outcome is Outcome.FAILED]
    judged: Callable[[Finding], Finding]
    if not bad:
        judged = partial(_between, pairs=[(name, again[name][0]) for name in outcomes])
    else:
        judged = partial(_of_node, bad=bad, again=again)
    return [judged(row) for row in failed]


def _between(row: Finding, pairs: Iterable[tuple[str, str]]) -> Finding:
    """No node fails with another partner: the way between these is to blame."""
    of_group = ", ".join(f"'{name}' with '{partner}'" for name, partner in pairs)
    cause = f"{row.cause} Each of these nodes passes with another one: {of_group}."
    return replace(
        row, cause=cause, next_step=f"Look at the network between these nodes. {row.next_step}".rstrip()
    )


def _of_node(row: Finding, bad: Sequence[str], again: dict[str, tuple[str, Finding]]) -> Finding:
    partner, found = again[row.target]
    if row.target in bad:
        return replace(row, cause=f"{row.cause} It fails with '{partner}', too, whose own group passed.")
    with_whom = " and ".join(f"'{name}'" for name in bad)
    note = f"it failed in a group with {with_whom}, and passed with '{partner}'"
    return replace(found, target=row.target, evidence={**found.evidence, "notes": [note]})
