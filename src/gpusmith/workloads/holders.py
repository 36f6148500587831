"""Pods that hold one GPU each, and name it."""

from __future__ import annotations

from functools import partial

from gpusmith.wait import Deadline, Done, NotYet, WaitTimeout, wait_until
from gpusmith.workloads import jobs, judge
from gpusmith.workloads.jobs import PodTask
from gpusmith.workloads.pods import Pods
from gpusmith.workloads.states import PodState, state_of
from gpusmith.workloads.waiting import Contended, NeverRan, PodProblem, Starts, deleted, out_of_memory

PROGRAM = jobs.program("hold_gpu.py")
TICK_S = 0.5


def held(pods: Pods, holder: PodTask, deadline: Deadline) -> tuple[str, str]:
    """Name of the pod that holds a GPU, and the UUID that it reports.

    Args:
        pods: of the check.
        holder: its pod, which was created.
        deadline: when to stop.

    Raises:
        PodProblem: it does not hold one.
    """
    return pods.patiently(jobs.pod, holder, partial(_named, pods, deadline))


def _named(pods: Pods, deadline: Deadline, holder: PodTask) -> tuple[str, str]:
    board, name = pods.node.board, holder.name
    try:
        pods.started(holder, Starts(pods.age(holder), board.warning), f"pod '{name}'")
        uuid = wait_until(f"pod '{name}' to name its GPU", partial(_look, pods, name), deadline, tick=TICK_S)
    except WaitTimeout as error:
        raise PodProblem(error.message, "Look at the pod's events and log.") from error
    return name, uuid


def _look(pods: Pods, name: str) -> Done[str] | NotYet:
    pod = pods.node.board.pod(name)
    if pod is None:
        raise deleted(f"pod '{name}'")
    # After the state: the log of a pod that has ended is whole.
    state = state_of(pod)
    return judge_holder(pods.node.expected, name, state, pods.log(pod))


def judge_holder(expected: judge.Expected, name: str, state: PodState, log: str) -> Done[str] | NotYet:
    """The UUID that a holder names, or that it has not named one yet.

    Args:
        expected: of the node.
        name: of the pod.
        state: of the pod, as it was before the log was read.
        log: what it printed.

    Raises:
        NeverRan: it may be tried again.
        PodProblem: it will not name one.
    """
    if state.never_ran:
        raise NeverRan(f"pod '{name}' was not started: {state.ended}")
    if state.displaced:
        raise Contended(f"pod '{name}' was ended from outside: {state.displaced}", "", log)
    result, problems = judge.program_result(expected, f"pod '{name}'", log)
    if result is None and state.limit:
        raise out_of_memory(f"pod '{name}'", state.limit)
    if result is None and state.phase != "Running":
        raise PodProblem(
            f"pod '{name}' ended before it named its GPU: {state.ended or state.phase}",
            f"Read 'journalctl -u containerd -u kubelet' on '{state.node}', and the pod's log.",
            log,
        )
    if result is None:
        return NotYet("no result yet")
    if problems:
        cause = problems[0].cause.removeprefix(f"Node '{expected.node}': ").rstrip(".")
        raise PodProblem(cause, problems[0].next_step, log)
    return Done(str(result["uuid"]))
