"""A pod that asks for the node's GPU model is placed there, and one that asks for another model is not."""

from __future__ import annotations

from gpusmith.checks.findings import NotApplicable
from gpusmith.names import GPU_TYPE_LABEL
from gpusmith.problems import Problem
from gpusmith.workloads import jobs
from gpusmith.workloads.judge import Judged
from gpusmith.workloads.pending import StaysPending, stays_pending
from gpusmith.workloads.pods import Pods
from gpusmith.workloads.register import workload
from gpusmith.workloads.waiting import PodProblem

OTHER = "gpusmith-other"
"""A model that no node has."""
NOT_HERE = "didn't match Pod's node affinity/selector"
"""The scheduler's words (Kubernetes 1.30 to 1.36, plugins/nodeaffinity)."""


def start(pods: Pods) -> None:
    """Both pods, without GPUs, before the first workload.

    Raises:
        NotApplicable: the inventory names no model.
    """
    model = pods.node.host.gpu_model
    if not model or not pods.node.host.managed:
        raise NotApplicable(
            f"not applicable: the inventory names no GPU model, so the node has no label '{GPU_TYPE_LABEL}'."
        )
    for name, kind in (("its-type", model), ("other-type", OTHER)):
        pods.create(jobs.pod, pods.task(name, ["python3", "-c", ""], 0, node_labels={GPU_TYPE_LABEL: kind}))


@workload(
    "workloads.gpu-type",
    place=85,
    proves=f"a pod with the node's '{GPU_TYPE_LABEL}' in its node affinity is placed there; with another it waits for that",
    fails_when="the first is not placed, or the second is, or waits for another reason",
    do=f"compare the node's label '{GPU_TYPE_LABEL}' with the inventory; run site.yml",
    title="placement by gpu-type",
    gpus=0,
    after=["workloads.network"],
    start=start,
)
def run(pods: Pods) -> Judged:
    """Wait for the pods that were started."""
    right, other = pods.tasks
    pods.log_of_pod(right)
    placed = PodProblem(
        f"pod '{other.name}' asks for '{GPU_TYPE_LABEL}: {OTHER}', and was placed",
        "Look for a webhook or scheduler that changes the node affinity of pods.",
    )
    said = stays_pending(pods, other, "for its node affinity", StaysPending(bool, placed))
    pods.delete(other.name)
    return judge(pods.node.host.name, said)


def judge(node: str, said: str) -> Judged:
    """The pod of another model waits for that.

    Args:
        node: its name.
        said: the scheduler's words.
    """
    evidence = {"pending": said}
    if NOT_HERE in said:
        return Judged(evidence)
    cause = f"Node '{node}': a pod for '{GPU_TYPE_LABEL}: {OTHER}' waits for another reason: {said}"
    return Judged(
        evidence, [Problem(cause, "Look at the scheduler's plugins: 'NodeAffinity' decides first.", evidence)]
    )
