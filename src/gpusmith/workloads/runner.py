"""Runs the workloads on all nodes at once, never takes a busy GPU, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from gpusmith.checks.findings import Finding
from gpusmith.cluster.api import Cluster
from gpusmith.workloads import cleanup, groups, namespace
from gpusmith.workloads.board import Board
from gpusmith.workloads.budget import Budget
from gpusmith.workloads.jobs import Run
from gpusmith.workloads.keepalive import KeepAlive
from gpusmith.workloads.node import NodeUnderTest, Say
from gpusmith.workloads.outcome import NodeOutcome, not_tested
from gpusmith.workloads.register import Step, Workload, in_order
from gpusmith.workloads.targets import Look, Target, looker, why_not
from gpusmith.workloads.turn import Turn, is_ready, pods_of

NODES_AT_ONCE = 16


def run_all(
    cluster: Cluster, run: Run, programs: Path, targets: Sequence[Target], say: Say, look: Look | None = None
) -> tuple[dict[str, NodeOutcome], Finding]:
    """Workloads on all nodes, and the finding about what is left behind.

    Args:
        cluster: the API.
        run: this run.
        programs: folder of what runs inside pods.
        targets: the nodes.
        say: told what is going on.
        look: reads a Node object anew; replaced in tests.

    Raises:
        ToolError: nothing could be started.
    """
    outcomes: dict[str, NodeOutcome] = {}
    reasons = {target.host.name: why_not(target) for target in targets}
    for target in targets:
        why = reasons[target.host.name]
        if why is not None:
            say(f"{target.host.name}: {why.reason}")
            outcomes[target.host.name] = not_tested(target, why)
    if all(reasons.values()):
        return outcomes, cleanup.nothing_made()
    # With many nodes, minutes pass until a node has its turn: what is free is looked at again then.
    ready = [target for target in targets if target.view is not None]
    try:
        namespace.make(cluster, run, programs)
        with KeepAlive(cluster, run):
            look = look or looker(cluster, run)
            outcomes.update(_on_nodes(cluster, run, ready, say, look, len(targets)))
    finally:
        cleaned = cleanup.run(cluster, run)
    return outcomes, cleaned


def _on_nodes(
    cluster: Cluster, run: Run, ready: Sequence[Target], say: Say, look: Look, of_run: int
) -> dict[str, NodeOutcome]:
    alone, together = in_order()
    with (
        Board(cluster, run.namespace, run.id if run.within else "") as board,
        ThreadPoolExecutor(max_workers=min(NODES_AT_ONCE, len(ready))) as pool,
    ):
        nodes = [
            NodeUnderTest(cluster, run, board, target, f"{run.prefix}n{place}", say, look)
            for place, target in enumerate(ready)
        ]
        budget = Budget(pool, run.gpu_budget, lambda: board.stopped)
        try:
            list(budget.map(partial(_on_node, alone), nodes))
            for workload in together:
                groups.run(budget, workload, nodes, of_run)
        except BaseException:
            # Interrupted: the other nodes' threads must not wait on, so that what was made is removed at once.
            board.stop()
            raise
    return {node.host.name: node.outcome for node in nodes}


# --- one node by itself ----------------------------------------------------------------------------------------


def _on_node(steps: Sequence[Step], node: NodeUnderTest) -> None:
    """Everything on one node, as it is when it has its turn."""
    why = node.refresh()
    if why is not None:
        node.outcome = not_tested(node.target, why)
        return
    node.outcome.view = node.view
    early = {row.check: Turn(row, [pods_of(row, node)]) for step in steps for row in step if row.start}
    try:
        for turn in early.values():
            turn.start()
        for step in steps:
            take = partial(_take, node, early, first=steps[0][0])
            with ThreadPoolExecutor(max_workers=_at_once(step, node.free)) as pool:
                list(pool.map(take, step))
    finally:
        node.release()


def _at_once(step: Step, free: int) -> int:
    """How many workloads of a step may run at the same time, with GPUs for each."""
    most = max(row.gpus if isinstance(row.gpus, int) else free for row in step)
    return max(1, min(len(step), free // max(1, most)))


def _take(node: NodeUnderTest, early: dict[str, Turn], workload: Workload, *, first: Workload) -> None:
    if is_ready(workload, node, just_seen=workload is first):
        turn = early.get(workload.check) or Turn(workload, [pods_of(workload, node)])
        turn.take()
    if workload.covers:
        node.outcome.view = node.target.view
