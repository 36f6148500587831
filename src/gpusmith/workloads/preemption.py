"""A pod of a higher PriorityClass takes the GPU of a lower one, and both are the suite's."""

from __future__ import annotations

from collections.abc import Mapping

from gpusmith.checks.findings import Finding, NotApplicable
from gpusmith.names import DEVICE_CLASS, PREEMPTING_CLASS, RUN_LABEL
from gpusmith.problems import Problem
from gpusmith.wait import Deadline
from gpusmith.workloads import holders, jobs, priority
from gpusmith.workloads.judge import Expected, Judged
from gpusmith.workloads.outcome import not_applicable
from gpusmith.workloads.pods import Pods
from gpusmith.workloads.register import workload
from gpusmith.workloads.waiting import Contended

CHECK = "workloads.preemption"


@workload(
    CHECK,
    place=75,
    proves="while pods of the suite hold all GPUs, one of a higher PriorityClass takes the place of exactly one of them, and gets"
    " its GPU. The class has a value below all that users set, so that it takes nobody else's place. Only with"
    " 'validation_preemption: true'",
    fails_when="the pod waits on, not exactly one pod of the suite gives way, or another GPU than that pod's is given",
    do="look at the PriorityClass and at the scheduler's plugins: its profile may leave 'DefaultPreemption' out",
    title="preemption",
    gpus=0,  # that are free: it is about those that the workloads before it hold
    after=["workloads.oversubscription"],
)
def run(pods: Pods) -> Judged | Finding:
    """Take the GPU that the workload before it has left, so that all are held, and make the pod that preempts."""
    node = pods.node
    if not node.host.validation.preemption:
        return not_applicable(CHECK, node.host, "the inventory does not say 'validation_preemption: true'")
    if node.offer.resource == DEVICE_CLASS:
        raise NotApplicable("not applicable: the scheduler preempts no pod for a claim.")
    if lower := _others_below(pods):
        raise NotApplicable(f"not applicable: {lower} has a lower priority, and could be preempted.")
    priority.ensure(node.cluster, priority.preempting())
    deadline = Deadline(node.host.validation.timeout_pod_s)
    last = pods.task("gives-way", holders.PROGRAM, 1)
    pods.create(jobs.pod, last)
    # Of the pods before it, the first gave its GPU to one that has ended.
    others = dict(list(node.findings["workloads.allocation"].evidence["held"].items())[1:])
    held = {**others, **dict([holders.held(pods, last, deadline)])}
    urgent = pods.task("preempts", holders.PROGRAM, 1, priority=PREEMPTING_CLASS)
    pods.create(jobs.pod, urgent)
    _, got = holders.held(pods, urgent, deadline)
    gone = {name: uuid for name, uuid in held.items() if not _holds(pods, name)}
    if not gone and (by_others := node.by_others([urgent.name])):
        raise Contended(f"pod '{urgent.name}' got {got}, and no pod of the suite gave way: {by_others}")
    return judge(node.expected, held, gone, got)


def judge(expected: Expected, held: Mapping[str, str], gone: Mapping[str, str], got: str) -> Judged:
    """One pod gave way, and its GPU went to the pod that preempts.

    Args:
        expected: of the node.
        held: UUIDs by the pods that held them before.
        gone: those of pods that gave way.
        got: UUID that the pod of the higher class names.
    """
    evidence = {"held": dict(held), "gave_way": dict(gone), "got": got}
    if list(gone.values()) == [got]:
        return Judged(evidence)
    said = ", ".join(f"'{name}' with {uuid}" for name, uuid in gone.items()) or "none"
    cause = f"Node '{expected.node}': one pod was to give way and to leave its GPU: {said} gave way, and {got} was given."
    step = "Look at the scheduler's plugins, and for a second device plugin."
    return Judged(evidence, [Problem(cause, step, evidence)])


def _others_below(pods: Pods) -> str:
    """A pod of somebody else on the node that the scheduler might choose; empty if there is none."""
    node = pods.node
    for pod in node.cluster.items("/api/v1/pods", fieldSelector=f"spec.nodeName={node.view.name}"):
        meta, value = pod["metadata"], pod["spec"].get("priority") or 0
        if value < priority.VALUE + 1 and (meta.get("labels") or {}).get(RUN_LABEL) != node.run.id:
            return f"pod '{meta['namespace']}/{meta['name']}'"
    return ""


def _holds(pods: Pods, name: str) -> bool:
    there = pods.node.board.pod(name)
    return there is not None and "deletionTimestamp" not in there["metadata"]
