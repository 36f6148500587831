"""One look at a step: where its pod is, what keeps it, and whether waiting has become pointless."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpusmith.cluster.api import Object
from gpusmith.workloads.states import Warned, latest_warnings, state_of
from gpusmith.workloads.waiting import HOPELESS, PULL_FAILURES, PULL_HOPELESS, PULL_RETRIES_S

CRASHES = 3
"""Restarts after which a service is given up."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Seen:
    """What is there of a step at one look.

    Attributes:
        owner: its Job or Deployment.
        pod: its newest pod.
        warning: of the newest pod, or of the owner where there is none.
    """

    owner: Mapping[str, Any]
    pod: Object | None = None
    warning: Warned | None = None

    @property
    def name(self) -> str:
        """Of the pod; empty if there is none."""
        return str(self.pod["metadata"]["name"]) if self.pod else ""

    @property
    def waiting(self) -> str:
        """For what its container waits, in a word of the kubelet."""
        return state_of(self.pod).waiting[0] if self.pod else ""

    @property
    def failed(self) -> bool:
        """Whether waiting cannot help."""
        rows = (self.owner.get("status") or {}).get("conditions") or []
        ended = any(row["type"] == "Failed" and row["status"] == "True" for row in rows)
        statuses = ((self.pod or {}).get("status") or {}).get("containerStatuses") or []
        crashes = any(row.get("restartCount", 0) >= CRASHES for row in statuses)
        return ended or crashes or self.waiting in (*HOPELESS, *PULL_HOPELESS)

    @property
    def done(self) -> bool:
        """Whether the Job has succeeded, or the Deployment serves."""
        status = self.owner.get("status") or {}
        return bool(status.get("succeeded") or status.get("readyReplicas"))

    @property
    def words(self) -> str:
        """Where it is and what keeps it."""
        if self.pod is None:
            return f"no pod yet{f': {self.warning}' if self.warning else ''}"
        state = state_of(self.pod)
        if state.phase != "Pending":
            return f"{state.phase} on {state.node}{f': {state.ended}' if state.ended else ''}"
        why = state.unscheduled or ": ".join(filter(None, state.waiting))
        return ", ".join(filter(None, ["Pending", why, str(self.warning or "")]))


def seen(owner: Mapping[str, Any], pods: Iterable[Object], events: Iterable[Mapping[str, Any]]) -> Seen:
    """One look, from the API's own lists."""
    newest = max(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp")), default=None)
    name = (newest or owner)["metadata"]["name"]
    return Seen(owner, newest, latest_warnings(events).get(str(name)))


@dataclass
class Judge:
    """Tells what is new at each look at a step, and whether waiting has become pointless.

    Attributes:
        step: its name.
        say: told what is new.
        told: what was told last.
        no_image_at: when its image was first seen not to come; None while it comes.
        clock: replaced in tests.
    """

    step: str
    say: Say
    told: str = ""
    no_image_at: float | None = None
    clock: Callable[[], float] = time.monotonic

    def gives_up(self, found: Seen) -> bool:
        """One look. A registry may fail for a while."""
        if found.words != self.told:
            self.told = found.words
            self.say(f"{self.step}: {found.words}")
        if found.waiting not in PULL_FAILURES:
            self.no_image_at = None
        elif self.no_image_at is None:
            self.no_image_at = self.clock()
        elif self.clock() - self.no_image_at > PULL_RETRIES_S:
            return True
        return found.failed
