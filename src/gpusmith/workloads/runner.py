"""Runs the workloads on all nodes at once, never takes a busy GPU, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from gpusmith.checks.findings import Finding, Outcome
from gpusmith.cluster.api import Cluster
from gpusmith.workloads import (
    allocation,
    cleanup,
    cuda,
    frameworks,
    isolation,
    load,
    namespace,
    network,
    nvidia_smi,
    oversubscription,
)
from gpusmith.workloads.board import Board
from gpusmith.workloads.jobs import PodTask, Run
from gpusmith.workloads.judge import Judged
from gpusmith.workloads.keepalive import KeepAlive
from gpusmith.workloads.node import NodeUnderTest, Say
from gpusmith.workloads.outcome import NodeChecks, NodeOutcome, not_made, not_tested
from gpusmith.workloads.pods import Pods
from gpusmith.workloads.targets import Look, Target, looker, why_not

NODES_AT_ONCE = 16


@dataclass
class Early:
    """Pods without GPUs, which start before the first workload and are looked at later.

    Attributes:
        network: the network probe, if there is one.
        isolation: those that look around.
    """

    network: list[PodTask] = field(default_factory=list)
    isolation: list[PodTask] = field(default_factory=list)


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
            outcomes.update(_on_nodes(cluster, run, ready, say, look or looker(cluster, run.namespace)))
    finally:
        cleaned = cleanup.run(cluster, run)
    return outcomes, cleaned


def _on_nodes(
    cluster: Cluster, run: Run, ready: Sequence[Target], say: Say, look: Look
) -> dict[str, NodeOutcome]:
    with (
        Board(cluster, run.namespace) as board,
        ThreadPoolExecutor(max_workers=min(NODES_AT_ONCE, len(ready))) as pool,
    ):
        nodes = [
            NodeUnderTest(cluster, run, board, target, f"n{place}", say, look)
            for place, target in enumerate(ready)
        ]
        started = [(node.host.name, pool.submit(run_node, node)) for node in nodes]
        try:
            return {name: future.result() for name, future in started}
        except BaseException:
            # Interrupted: the other nodes' threads must not wait on, so that what was made is removed at once.
            board.stop()
            raise


def run_node(node: NodeUnderTest) -> NodeOutcome:
    """Everything on one node, as it is when it has its turn."""
    why = node.refresh()
    if why is not None:
        return not_tested(node.target, why)
    checks = NodeChecks(node)
    try:
        _in_order(checks)
    finally:
        checks.release()
    return checks.outcome


def _in_order(checks: NodeChecks) -> None:
    """The order in which a failure tells most."""
    node, early = checks.node, Early()
    if not node.host.network:
        checks.record(network.left_out(node.host))
    checks.outcome.view = node.view
    first = checks.check(nvidia_smi.CHECK, "nvidia-smi", partial(_begin, early))
    if first.outcome is Outcome.ERROR or (first.outcome is Outcome.FAILED and "uuids" not in first.evidence):
        _without_gpus(checks, early)
        checks.rest("the first workload did not run; see workloads.nvidia-smi.", first)
        return
    computed = checks.on_gpus(cuda.CHECK, lambda free: f"CUDA on {free} GPUs", cuda.run)
    checks.record(
        load.judge(node.host, computed)
        or not_made(
            load.CHECK, node.host, "the CUDA workload did not come so far; see workloads.cuda.", computed
        )
    )
    checks.outcome.view = node.target.view
    _frameworks(checks)
    _without_gpus(checks, early)
    held = checks.on_gpus(
        allocation.CHECK, lambda free: f"{free} pods with one GPU each", allocation.run, keep=True
    )
    if "held" in held.evidence and held.outcome in (Outcome.PASSED, Outcome.SKIPPED):
        one_more = partial(oversubscription.run, held=held.evidence["held"])
        checks.check(oversubscription.CHECK, "one pod more than GPUs", one_more)
    checks.rest("the workload before it did not pass.", held)


def _begin(early: Early, pods: Pods) -> Judged:
    if pods.node.host.network:
        early.network = [network.start(pods)]
    early.isolation = isolation.start(pods)
    return nvidia_smi.run(pods)


def _frameworks(checks: NodeChecks) -> None:
    """Both at once, if there is a GPU for each."""
    rows = frameworks.FRAMEWORKS
    with ThreadPoolExecutor(max_workers=max(1, min(len(rows), checks.node.free))) as pool:
        for done in [pool.submit(_framework, checks, row) for row in rows]:
            done.result()


def _framework(checks: NodeChecks, row: frameworks.Framework) -> Finding:
    return checks.on_gpus(row.check, lambda _: row.title, partial(frameworks.run, framework=row))


def _without_gpus(checks: NodeChecks, early: Early) -> None:
    for probe in early.network:
        checks.check(network.CHECK, "network", partial(network.run, probe=probe))
    if early.isolation:
        checks.check(isolation.CHECK, "isolation", partial(isolation.run, probes=early.isolation))
