"""What all checks that judge one node say of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from gpusmith.checks.cluster import ClusterFacts
from gpusmith.checks.findings import NotAsked
from gpusmith.checks.register import Reads, catalog
from gpusmith.cluster.snapshot import Snapshot
from gpusmith.cluster.views import view_of
from gpusmith.node.facts import NodeFacts
from gpusmith.problems import Problem
from gpusmith.wanted.node import NodeWanted
from tests.unit.objects import MASTER

Facts = Callable[..., NodeFacts]


def _functions(reads: Reads) -> dict[str, Callable[[Any], Sequence[Problem]]]:
    found = {row.id: row.judge for row in catalog().values() if row.reads is reads}
    return cast("dict[str, Callable[[Any], Sequence[Problem]]]", found)


RECORD_CHECKS = _functions(Reads.RECORD)
"""Functions of the checks that judge a node's record."""
NODE_CHECKS = _functions(Reads.NODE)
"""Functions of the checks that judge a node as the cluster has it."""


def failing(facts: NodeFacts) -> dict[str, str]:
    """Ids of the checks that find something, with their causes."""
    found = {}
    for name, check in RECORD_CHECKS.items():
        try:
            problems = check(facts)
        except NotAsked:
            continue
        if problems:
            found[name] = " ".join(problem.cause for problem in problems)
            assert all(problem.next_step for problem in problems), name
    return found


def failing_in_cluster(
    host: NodeWanted, raw: dict[str, Any] | None, pods: list[dict[str, Any]], master: dict[str, Any] = MASTER
) -> dict[str, str]:
    view = view_of(raw, pods, "gpusmith-system") if raw else None
    ready = Snapshot({}, {}, (*pods, master)).ready_operands
    facts = ClusterFacts(host, "gpu-1", view, ready)
    found = {}
    for name, check in NODE_CHECKS.items():
        try:
            problems = check(facts)
        except NotAsked:
            continue
        if problems:
            found[name] = " ".join(problem.cause for problem in problems)
    return found
