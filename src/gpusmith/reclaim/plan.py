"""What is to be done about GPUs that nobody uses: facts in, decisions out.

Nobody loses pods without a warning: a first run finds an owner idle and marks it, and a later one acts if its pods were idle all
the time since. What is not proved leaves everything as it is.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from gpusmith.reclaim.evidence import Judged, Use, Window, judge, minutes
from gpusmith.reclaim.owners import Owner

STALE_S = 7 * 24 * 3600
"""Age at which a warning counts for nothing: nobody remembers it."""


class Does(StrEnum):
    """What is done about an owner."""

    NOTHING = "leave"
    WARN = "warn"
    CLEAR = "end warning"
    ACT = "stop"


WORDS = {Does.WARN: "warned", Does.CLEAR: "no longer warned"}
SCHEMA = "gpusmith.reclaim/1"


@dataclass(frozen=True)
class Asked:
    """The variables of a run.

    Attributes:
        idle_s: window in which nobody used the GPUs.
        grace_s: between the warning and what follows.
        max_pods: that a run may end.
    """

    idle_s: int
    grace_s: int
    max_pods: int


@dataclass(frozen=True)
class Decision:
    """What is done about an owner, and why."""

    owner: Owner
    does: Does
    why: str

    @property
    def line(self) -> str:
        """For the table."""
        return f"{self.owner.title:<40} {self.owner.held:<7} {self.does:<12} {self.why}"

    @property
    def words(self) -> str:
        """What changes, for a sentence."""
        stop = "suspended" if self.owner.kind == "Job" else f"scaled from {self.owner.replicas} to 0"
        return f"{self.owner.title} {WORDS.get(self.does, stop)}"

    def instead(self, why: str) -> Decision:
        """It was not done."""
        return replace(self, does=Does.NOTHING, why=f"{self.why}; not done, since {why}")


Look = Callable[[int], Window]


def decide(found: Iterable[Owner], look: Look, asked: Asked, now: float) -> list[Decision]:
    """What is done about each, in the order in which it is told: most GPUs first.

    Args:
        found: owners of pods with GPUs.
        look: what Prometheus knows of the last so many seconds.
        asked: of the run.
        now: seconds since 1970, by Prometheus.
    """
    rows = sorted(found, key=lambda owner: (-owner.gpus, owner.title))
    return _within([_of(owner, look, asked, now) for owner in rows], asked.max_pods)


def _of(owner: Owner, look: Look, asked: Asked, now: float) -> Decision:
    if owner.keep:
        return Decision(owner, Does.CLEAR if owner.warned else Does.NOTHING, owner.keep)
    judged = _judged(owner, look, asked.idle_s, now)
    if judged.use is not Use.IDLE:
        clears = owner.warned and judged.use is Use.USED
        return Decision(owner, Does.CLEAR if clears else Does.NOTHING, judged.why)
    idle = f"idle for {minutes(asked.idle_s)}"
    if owner.barred:
        return Decision(owner, Does.CLEAR if owner.warned else Does.NOTHING, f"{idle}, but {owner.barred}")
    since = owner.since
    if since is None or not now - STALE_S < since <= now:
        return Decision(owner, Does.WARN, f"{idle}; {_next(now + asked.grace_s)}")
    again = _judged(owner, look, max(int(now - since), asked.idle_s), now)
    if again.use is not Use.IDLE:
        return Decision(owner, Does.WARN, f"{idle}, once more: {again.why}; {_next(now + asked.grace_s)}")
    if now - since < asked.grace_s:
        return Decision(owner, Does.NOTHING, f"warned at {clock(since)}; {_next(since + asked.grace_s)}")
    return Decision(owner, Does.ACT, f"idle, and warned at {clock(since)}")


def _judged(owner: Owner, look: Look, seconds: int, now: float) -> Judged:
    """Of all pods together: one that is used is more to know than one of which nothing is."""
    window = look(seconds)
    found = [judge(pod, window.get((owner.namespace, pod.name), ()), seconds, now) for pod in owner.pods]
    for use in (Use.USED, Use.UNKNOWN):
        for each in found:
            if each.use is use:
                return each
    return Judged(Use.IDLE)


def _within(rows: Sequence[Decision], most: int) -> list[Decision]:
    """With no more pods than a run may end."""
    left, done = most, []
    for row in rows:
        count = len(row.owner.pods)
        if row.does is Does.ACT and count > left:
            why = f"it has {count} pods, and 'gpu_reclaim_max_pods' leaves {left} of {most} for it"
            done.append(row.instead(why))
            continue
        left -= count if row.does is Does.ACT else 0
        done.append(row)
    return done


def _next(when: float) -> str:
    return f"a run from {clock(when)} on acts"


def clock(when: float) -> str:
    """A time for people and programs."""
    return dt.datetime.fromtimestamp(int(when), dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def report(rows: Iterable[Decision], now: float) -> dict[str, Any]:
    """For programs."""
    found = [
        {
            "namespace": row.owner.namespace,
            "kind": row.owner.kind,
            "name": row.owner.name,
            "gpus": row.owner.gpus,
            "pods": [pod.name for pod in row.owner.pods],
            "does": str(row.does),
            "why": row.why,
        }
        for row in rows
    ]
    return {"schema": SCHEMA, "time": clock(now), "owners": found}
