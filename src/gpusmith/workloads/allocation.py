"""One pod per free GPU, all at the same time: each gets a GPU of its own."""

from __future__ import annotations

from collections.abc import Mapping

from gpusmith.wait import Deadline
from gpusmith.workloads import holders, jobs
from gpusmith.workloads.judge import Expected, Judged, uuids_known
from gpusmith.workloads.pods import Pods

CHECK = "workloads.allocation"
HOLD_SLACK_S = 120
"""On top of the time in which these pods start and one of them is followed by another: they end by themselves after a kill."""


def run(pods: Pods) -> Judged:
    """Pods that hold their GPUs until the run ends; the evidence says which pod holds which."""
    node = pods.node
    hold_s = 2 * node.host.pod_timeout_s + HOLD_SLACK_S
    env = {"GPUSMITH_HOLD_S": str(int(hold_s))}
    waiting = [
        pods.task(f"hold-{n}", node.host.images.cuda, holders.PROGRAM, 1, timeout_s=hold_s, env=env)
        for n in range(node.free)
    ]
    for holder in waiting:
        pods.create(jobs.pod, holder)
    deadline = Deadline(node.host.pod_timeout_s)
    return judge(node.expected, dict(holders.held(pods, holder, deadline) for holder in waiting), node.free)


def judge(expected: Expected, held: Mapping[str, str], wanted: int) -> Judged:
    """As many GPUs as pods, all distinct, all of the host.

    Args:
        expected: of the node.
        held: UUIDs by the pods that hold them.
        wanted: how many pods there are.
    """
    problems = uuids_known(expected, f"{wanted} pods at the same time", list(held.values()), wanted)
    return Judged({"held": dict(held)}, problems, of_host=True)
