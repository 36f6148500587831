"""What a check says: nothing wrong, what is wrong, or why it could not be asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from gpusmith.problems import Problem


class Outcome(StrEnum):
    """How a check ended; only ``PASSED`` proves something."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    SKIPPED = "skipped"


class Skip(StrEnum):
    """Why a check was skipped. Only what does not apply may be left out of a proof."""

    NOT_APPLICABLE = "not_applicable"
    """There is no such thing on the target, or nothing is known by which it could be judged."""
    LEFT_OUT = "left_out"
    """The node is in use or kept back; coverage says who and why."""
    BLOCKED = "blocked"
    """It could not be asked, because of what another check reports."""


@dataclass(frozen=True)
class Finding:
    """The outcome of one check on one target.

    Attributes:
        check: id from the catalog, for example 'nodes.gpu-count'.
        target: a node's name, or 'cluster'.
        outcome: how it ended.
        cause: one sentence or more that name node, GPU and cause; empty if passed.
        evidence: what was seen, as plain JSON data.
        next_step: what a person does next; empty if passed.
        simulated: whether it was taken on simulated GPUs.
        duration_s: seconds.
        skip: kind of skip; None if it was not skipped.
    """

    check: str
    target: str
    outcome: Outcome
    cause: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    next_step: str = ""
    simulated: bool = False
    duration_s: float = 0.0
    skip: Skip | None = None


class NotAsked(Exception):  # noqa: N818 - it is no error
    """Raised by a check that comes to no finding of its own."""

    skip = Skip.BLOCKED


class NotApplicable(NotAsked):
    """Raised by a check that does not concern its target."""

    skip = Skip.NOT_APPLICABLE


class CannotAsk(NotAsked):
    """Raised by a check that cannot be asked because another check failed."""


def merge(
    check: str, target: str, problems: Iterable[Problem], simulated: bool, evidence: Mapping[str, Any]
) -> Finding:
    """One finding from all problems that a check found, each named."""
    found = list(problems)
    if not found:
        return Finding(check, target, Outcome.PASSED, evidence=evidence, simulated=simulated)
    merged: dict[str, Any] = dict(evidence)
    for problem in found:
        merged.update(problem.evidence)
    steps = list(dict.fromkeys(problem.next_step for problem in found if problem.next_step))
    return Finding(
        check,
        target,
        Outcome.FAILED,
        cause=" ".join(problem.cause for problem in found),
        evidence=merged,
        next_step=" ".join(steps),
        simulated=simulated,
    )
