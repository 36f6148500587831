"""A pod that must stay Pending, for a reason that the scheduler gives."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from gpusmith.cluster.api import Object
from gpusmith.wait import Deadline, Done, NotYet, WaitTimeout
from gpusmith.workloads.jobs import PodTask
from gpusmith.workloads.pods import Pods
from gpusmith.workloads.states import state_of
from gpusmith.workloads.waiting import PodProblem, queued

PENDING_WAIT_S = 60.0
STAYS_PENDING_S = 3.0


@dataclass
class StaysPending:
    """Whether the scheduler says a reason for a while.

    Attributes:
        reason: whether its words give the reason.
        placed: what it means that the pod was placed.
        since: when the scheduler was first seen to say it.
    """

    reason: Callable[[str], bool]
    placed: PodProblem
    since: float | None = None

    def __call__(self, pod: Object | None) -> Done[str] | NotYet:
        """Look at the pod once.

        Raises:
            PodProblem: it was placed.
        """
        if pod is None:
            return NotYet("no pod yet")
        state = state_of(pod)
        if state.node:
            raise self.placed
        # A scheduler of others has words of its own.
        theirs = state.steered and state.unscheduled
        if not theirs and not self.reason(state.unscheduled):
            return NotYet(state.unscheduled or "no word of the scheduler")
        now = time.monotonic()
        if self.since is None:
            self.since = now
        return NotYet(state.unscheduled) if now - self.since < STAYS_PENDING_S else Done(state.unscheduled)


def stays_pending(pods: Pods, task: PodTask, why: str, waits: StaysPending) -> str:
    """The scheduler's words.

    Args:
        pods: of the workload.
        task: of the pod, which was created.
        why: what it waits for, in words.
        waits: judges it.

    Raises:
        PodProblem: it was placed, or waits for another reason.
    """
    try:
        what = f"pod '{task.name}' to stay Pending {why}"
        return pods.node.board.wait(what, task.name, waits, Deadline(PENDING_WAIT_S))
    except WaitTimeout as error:
        state = state_of(pods.node.board.pod(task.name) or {})
        if state.held or state.steered:
            raise queued(state.held or state.steered) from error
        raise PodProblem(error.message, "Look at the pod's conditions.") from error
