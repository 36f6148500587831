"""One pod per free GPU, all at the same time: each gets a GPU of its own."""

from __future__ import annotations

from collections.abc import Mapping

from gpusmith.checks.findings import Finding, Outcome
from gpusmith.wait import Deadline
from gpusmith.workloads import holders, jobs
from gpusmith.workloads.judge import Expected, Judged, uuids_known
from gpusmith.workloads.pods import Pods
from gpusmith.workloads.register import ALL, workload

HOLD_SLACK_S = 120
"""On top of the time in which these pods start and one of them is followed by another: they end by themselves after a kill."""


def holds_nothing(found: Finding) -> str:
    """Why no pod is made beside those that hold GPUs; empty if they do."""
    passed = "held" in found.evidence and found.outcome in (Outcome.PASSED, Outcome.SKIPPED)
    return "" if passed else "the workload before it did not pass."


@workload(
    "workloads.allocation",
    place=60,
    proves="one pod per free GPU runs at the same time, and all UUIDs are distinct and known to the host",
    fails_when="a pod gets no GPU, two pods hold the same one, or a pod holds one that the host does not know",
    do="look for a second device plugin or for time slicing; restart the device plugin",
    title="{gpus} pods with one GPU each",
    gpus=ALL,
    after=["workloads.isolation"],
    blocks=holds_nothing,
    keeps=True,
)
def run(pods: Pods) -> Judged:
    """Pods that hold their GPUs until the run ends; the evidence says which pod holds which."""
    host = pods.node.host
    hold_s = 2 * host.validation.timeout_pod_s + HOLD_SLACK_S
    env = {"GPUSMITH_HOLD_S": str(int(hold_s))}
    waiting = [
        pods.task(f"hold-{n}", holders.PROGRAM, 1, timeout_s=hold_s, env=env) for n in range(pods.gpus)
    ]
    for holder in waiting:
        pods.create(jobs.pod, holder)
    deadline = Deadline(host.validation.timeout_pod_s)
    held = dict(holders.held(pods, holder, deadline) for holder in waiting)
    return judge(pods.node.expected, held, pods.gpus)


def judge(expected: Expected, held: Mapping[str, str], wanted: int) -> Judged:
    """As many GPUs as pods, all distinct, all of the host.

    Args:
        expected: of the node.
        held: UUIDs by the pods that hold them.
        wanted: how many pods there are.
    """
    problems = uuids_known(expected, f"{wanted} pods at the same time", list(held.values()), wanted)
    return Judged({"held": dict(held)}, problems, of_host=True)
