"""The finding of one check on one target: its facts from the sources, its function's problems, what kept it from a verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gpusmith.checks.cluster import ClusterFacts
from gpusmith.checks.findings import CannotAsk, Finding, NotApplicable, NotAsked, Outcome, merge
from gpusmith.checks.register import CLUSTER, Check, Reads
from gpusmith.checks.watched import Watched, WatchedNode
from gpusmith.checks.whole_cluster import ClusterAnswer, WholeCluster
from gpusmith.errors import GpusmithError
from gpusmith.expect import gpus
from gpusmith.expect.wanted import all_models
from gpusmith.node.connections import Probed
from gpusmith.node.facts import NodeFacts, machine_of
from gpusmith.suite import own
from gpusmith.suite.owners import for_others, for_owner, without_ours
from gpusmith.suite.sources import Sources, kind_of
from gpusmith.workloads.outcome import NodeOutcome
from gpusmith.workloads.uniformity import OfRun

OF_INSTALLED_DRIVERS = frozenset(
    f"nodes.{name}"
    for name in ("driver-versions", "foreign-driver", "kernels", "fabric", "cdi", "char-links")
)
"""Checks of what an installation on the machine itself has to have."""


def evaluate(check: Check, target: str, sources: Sources) -> Finding:
    """What a check says of a target.

    Args:
        check: from the register.
        target: a host's name, or 'cluster'.
        sources: of this run.
    """
    begin = time.monotonic()
    simulated = sources.simulated(target)
    try:
        finding = _found(check, target, sources, simulated)
    except NotAsked as why:
        finding = Finding(check.id, target, Outcome.SKIPPED, str(why), skip=why.skip)
    except GpusmithError as error:
        finding = Finding(check.id, target, Outcome.ERROR, error.message, next_step=error.hint)
    except Exception as error:
        if not own.is_own(check):
            raise
        cause, step = own.broken(error)
        finding = Finding(check.id, target, Outcome.ERROR, cause, next_step=step)
    spent = time.monotonic() - begin
    host = sources.inventory.hosts.get(target)
    if not (host.managed if host else sources.inventory.managed):
        finding = without_ours(finding)
    return replace(finding, simulated=finding.simulated or simulated, duration_s=finding.duration_s or spent)


def _found(check: Check, target: str, sources: Sources, simulated: bool) -> Finding:
    host = sources.inventory.hosts.get(target)
    if check.managed_only and not (host.managed if host else sources.inventory.managed):
        raise NotApplicable("Not applicable: gpusmith did not set up this cluster.")
    facts = FACTS[check.reads](sources, target)
    if isinstance(facts, NodeFacts) and facts.record.library.container and check.id in OF_INSTALLED_DRIVERS:
        raise NotApplicable(f"Not applicable: the driver of node '{target}' is in a container.")
    found = check.judge(facts)
    if isinstance(found, Finding):
        return found
    if isinstance(facts, NodeFacts):
        found = [for_owner(check.id, facts.host, problem) for problem in found]
    elif isinstance(facts, ClusterFacts):
        found = [for_others(facts, problem) for problem in found]
    finding = merge(check.id, target, found, simulated, check.evidence(facts))
    # All nodes are asked at once when the first is: what one of them took is its own time.
    return replace(finding, duration_s=facts.duration_s) if isinstance(facts, Probed) else finding


# --- what each kind of check is given ------------------------------------------------------------------------


def _answer(sources: Sources, target: str) -> Probed | ClusterAnswer:
    if target != CLUSTER:
        return sources.probed[target]
    try:
        return ClusterAnswer(None, tuple(sources.cluster().snapshot.nodes))
    except GpusmithError as trouble:
        return ClusterAnswer(trouble)


def _record(sources: Sources, target: str) -> NodeFacts:
    record, host = sources.record(target), sources.inventory.hosts[target]
    if record is None and sources.probed[target].not_asked:
        raise NotApplicable(sources.probed[target].problem)
    if record is None:
        raise CannotAsk(f"There is no record of node '{target}'; see nodes.reachable.")
    fleet, rows = sources.fleets[kind_of(host, record)], all_models(host)
    model = rows.get(host.gpu_model) or gpus.row_of(record, rows)
    return NodeFacts(host, record, model, fleet, sources.inventory.hosts, everyone=sources.everyone)


def _node(sources: Sources, target: str) -> ClusterFacts:
    lists = sources.cluster().snapshot
    # The cluster can be judged without a way to its machines; where they were asked, they are compared with it.
    probed = sources.probed_so_far.get(target)
    record = probed.record if probed else None
    return ClusterFacts(
        sources.inventory.hosts[target],
        sources.node_name(target),
        sources.view(target),
        lists.ready_operands,
        lists.foreign_fields,
        machine_of(sources.inventory.hosts[target], record) if record else None,
        was_asked=probed is not None and not probed.not_asked,
    )


def _lists(sources: Sources, _: str) -> WholeCluster:
    state = sources.cluster()
    return WholeCluster(tuple(sources.inventory.hosts.values()), state.snapshot, state.removed)


def _watched(sources: Sources, target: str) -> Watched | WatchedNode:
    answers = sources.watched()
    if target == CLUSTER:
        return Watched(sources.inventory.monitoring, answers)
    host, probed = sources.inventory.hosts[target], sources.probed_so_far.get(target)
    record = probed.record if probed else None
    return WatchedNode(host, sources.node_name(target), sources.view(target), record, answers)


def _run(sources: Sources, target: str) -> NodeOutcome | Finding:
    outcomes, cleanup = sources.workloads()
    return cleanup if target == CLUSTER else outcomes[target]


def _among(sources: Sources, target: str) -> OfRun:
    outcomes, _ = sources.workloads()
    return OfRun(sources.inventory.hosts[target], outcomes[target], sources.alike)


FACTS: Mapping[Reads, Callable[[Sources, str], Any]] = {
    Reads.ANSWER: _answer,
    Reads.RECORD: _record,
    Reads.NODE: _node,
    Reads.LISTS: _lists,
    Reads.WATCHED: _watched,
    Reads.RUN: _run,
    Reads.FLEET: _among,
}
