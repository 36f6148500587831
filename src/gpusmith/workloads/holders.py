"""Pods that hold one GPU each, or a share of one, and say what they found there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from gpusmith.wait import Deadline, Done, NotYet, WaitTimeout, wait_until
from gpusmith.workloads import jobs, judge
from gpusmith.workloads.jobs import PodTask
from gpusmith.workloads.pods import Pods
from gpusmith.workloads.states import PodState, state_of
from gpusmith.workloads.waiting import Contended, NeverRan, PodProblem, Starts, deleted, out_of_memory

PROGRAM = jobs.program("hold_gpu.py")
TICK_S = 0.5
HOLD_SLACK_S = 120
"""On top of the time in which these pods start and one of them is followed by another: they end by themselves after a kill."""

Read = Callable[[judge.Expected, str, PodState, str], Done[str] | NotYet]
"""What is read of a holder: gets its node, its name, its state, and what it printed before."""


def at_once(
    pods: Pods,
    name: str,
    command: Sequence[str],
    read: Read,
    env: Mapping[str, str] = MappingProxyType({}),
    work_s: float = 0.0,
) -> dict[str, str]:
    """What a pod for each GPU, or share, that the workload gets says, by its name. None ends before all have said it.

    One that ended early would leave its GPU to the next one, and another GPU to nobody.

    Args:
        pods: of the workload.
        name: of the pods, before their numbers.
        command: program and arguments.
        read: what is read of each.
        env: further variables.
        work_s: how long the program works.

    Raises:
        PodProblem: one does not say it.
    """
    patience_s = pods.node.host.validation.timeout_pod_s + work_s
    hold_s = 2 * patience_s + HOLD_SLACK_S
    env = {**env, "GPUSMITH_HOLD_S": str(int(hold_s))}
    waiting = [pods.task(f"{name}-{n}", command, 1, timeout_s=hold_s, env=env) for n in range(pods.gpus)]
    for holder in waiting:
        pods.create(jobs.pod, holder)
    deadline = Deadline(patience_s)
    return dict(_read(pods, holder, deadline, read) for holder in waiting)


def held(pods: Pods, holder: PodTask, deadline: Deadline) -> tuple[str, str]:
    """Name of the pod that holds a GPU, and the UUID that it reports.

    Args:
        pods: of the check.
        holder: its pod, which was created.
        deadline: when to stop.

    Raises:
        PodProblem: it does not hold one.
    """
    return _read(pods, holder, deadline, judge_holder)


def _read(pods: Pods, holder: PodTask, deadline: Deadline, read: Read) -> tuple[str, str]:
    return pods.patiently(jobs.pod, holder, partial(_said, pods, deadline, read))


def _said(pods: Pods, deadline: Deadline, read: Read, holder: PodTask) -> tuple[str, str]:
    board, name = pods.node.board, holder.name
    try:
        pods.started(holder, Starts(pods.age(holder), board.warning), f"pod '{name}'")
        look = partial(_look, pods, name, read)
        found = wait_until(f"pod '{name}' to name its GPU", look, deadline, tick=TICK_S)
    except WaitTimeout as error:
        raise PodProblem(error.message, "Look at the pod's events and log.") from error
    return name, found


def _look(pods: Pods, name: str, read: Read) -> Done[str] | NotYet:
    pod = pods.node.board.pod(name)
    if pod is None:
        raise deleted(f"pod '{name}'")
    # After the state: the log of a pod that has ended is whole.
    state = state_of(pod)
    return read(pods.node.expected, name, state, pods.log(pod))


def log_of_holder(expected: judge.Expected, name: str, state: PodState, log: str) -> Done[str] | NotYet:
    """All that a holder printed, once its result is there, whatever that says; otherwise as `judge_holder`."""
    return Done(log) if judge.result_of(log) is not None else judge_holder(expected, name, state, log)


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
