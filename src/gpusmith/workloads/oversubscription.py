"""One pod more than GPUs waits for the scheduler's own reason, and gets exactly the GPU that is freed."""

from __future__ import annotations

import time
from collections.abc import Mapping

from gpusmith.checks.findings import Finding, NotApplicable, Outcome
from gpusmith.names import DEVICE_CLASS
from gpusmith.problems import Problem
from gpusmith.wait import Deadline
from gpusmith.wanted.layouts import WHOLE, Layout
from gpusmith.workloads import holders, jobs
from gpusmith.workloads.judge import SECOND_PLUGIN, Expected, Judged
from gpusmith.workloads.pending import StaysPending, stays_pending
from gpusmith.workloads.pods import Pods
from gpusmith.workloads.register import workload
from gpusmith.workloads.waiting import Contended

NO_CLAIMS_LEFT = "cannot allocate all claims"
"""The scheduler's words for claims (Kubernetes 1.34 to 1.36, dynamicresources.go); it does not name the class."""


def did_not_pass(found: Finding) -> str:
    """Why no pod is made after it: it may not have left as many pods as GPUs."""
    return "" if found.outcome is Outcome.PASSED else "the workload before it did not pass."


@workload(
    "workloads.oversubscription",
    place=70,
    proves="one more pod waits for lack of GPUs, in the scheduler's words, then gets exactly the freed GPU",
    fails_when="the pod is placed while all GPUs are held, waits for another reason, or gets another GPU than the freed one",
    do="look for a second device plugin, for time slicing, or for somebody else's pod that ended meanwhile",
    title="one pod more than GPUs",
    gpus=0,  # that are free: it is about those that the workload before it holds
    after=["workloads.allocation"],
    blocks=did_not_pass,
)
def run(pods: Pods) -> Judged:
    """Make the pod, see it wait, free a GPU, see which one it gets."""
    node = pods.node
    held: Mapping[str, str] = node.findings["workloads.allocation"].evidence["held"]
    if node.layout.shared and len(held) < node.free:
        raise NotApplicable(
            f"not applicable: {len(held)} pods hold a {node.layout.part} each, of {node.free}: the node takes no more pods."
        )
    extra = pods.task("one-more", holders.PROGRAM, 1)
    pods.create(jobs.pod, extra)
    placed = Contended(
        f"pod '{extra.name}' was placed while {len(held)} pods hold all GPUs that were free",
        "Look for more than one device plugin, time slicing, or a pod of somebody else that ended meanwhile.",
    )
    # Of a scheduler with words of its own, which GPU the pod gets proves what it waited for.
    waits = StaysPending(lambda said: insufficient(said, extra.resource), placed)
    pending = stays_pending(pods, extra, "for lack of GPUs", waits)
    ended, freed = next(iter(held.items()))
    pods.delete(ended)
    # It was Pending as expected until now: its timeout starts here.
    node.made[extra.name] = time.monotonic()
    _, got = holders.held(pods, extra, Deadline(node.host.validation.timeout_pod_s))
    if got != freed and (by_others := node.by_others([extra.name])):
        raise Contended(f"the waiting pod got {got} instead of {freed}: {by_others}")
    return judge(node.expected, held, freed, got, pending, node.layout)


def judge(
    expected: Expected, held: Mapping[str, str], freed: str, got: str, pending: str, layout: Layout = WHOLE
) -> Judged:
    """The waiting pod got the GPU that was freed.

    Args:
        expected: of the node.
        held: UUIDs by the pods that held them before.
        freed: UUID that was given back.
        got: UUID that the waiting pod names.
        pending: the scheduler's words while it waited.
        layout: how the node hands its GPUs out; of shares, others of that GPU are held still, of MIG instances each is one.
    """
    evidence = {"pending": pending, "freed": freed, "got": got, "held": dict(held)}
    if got == freed:
        return Judged(evidence)
    if layout.shared and not layout.profile:
        cause, step = f"a share of {freed} was freed, but the waiting pod got one of {got}", SECOND_PLUGIN
    else:
        also = " which another pod holds" if got in held.values() else ""
        cause = f"{'MIG instance ' if layout.profile else ''}{freed} was freed, but the waiting pod got {got}{also}"
        step = "Look for a second device plugin or for time slicing."
    return Judged(evidence, [Problem(f"Node '{expected.node}': {cause}.", step, evidence)])


def insufficient(message: str, resource: str) -> bool:
    """Whether the scheduler's words give lack of a resource as the reason."""
    return (NO_CLAIMS_LEFT if resource == DEVICE_CLASS else f"Insufficient {resource}") in message
