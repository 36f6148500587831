"""What all checks of the nodes tier say of a node."""

from __future__ import annotations

from collections.abc import Callable

from gpusmith.checks.findings import NotAsked
from gpusmith.node.facts import NodeFacts
from tests.unit.suite.conftest import RECORD_CHECKS

Facts = Callable[..., NodeFacts]


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
