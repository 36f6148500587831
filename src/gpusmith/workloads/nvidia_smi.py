"""nvidia-smi on all free GPUs of a node, which shows what the container runtime gives."""

from __future__ import annotations

import re

from gpusmith.problems import Problem
from gpusmith.workloads.judge import Expected, Judged, last_words, uuids_known
from gpusmith.workloads.pods import Pods

CHECK = "workloads.nvidia-smi"
UUID = re.compile(r"\(UUID: ((?:GPU|MIG)-[0-9a-fA-F-]+)\)")


def run(pods: Pods) -> Judged:
    """A Job with all free GPUs: with one GPU too few it would not be seen."""
    node = pods.node
    task = pods.task("nvidia-smi", node.host.images.cuda, ["nvidia-smi", "-L"], node.free)
    return judge(node.expected, pods.run_job(task), node.free)


def judge(expected: Expected, log: str, wanted: int) -> Judged:
    """``nvidia-smi -L`` lists exactly the GPUs that were given. The banner is never parsed: its words change.

    Args:
        expected: of the node.
        log: what it printed.
        wanted: how many GPUs it was given.
    """
    seen = UUID.findall(log)
    if seen:
        return Judged({"uuids": seen}, uuids_known(expected, "nvidia-smi", seen, wanted), of_host=True)
    said = " ".join(log.split())[-200:] or "no output"
    problem = Problem(
        f"Node '{expected.node}': nvidia-smi in a pod lists no GPU: {said}.",
        "Compare with 'nvidia-smi -L' on the node; see nodes.nvml.",
        {"log": last_words(log)},
    )
    return Judged({"uuids": seen}, [problem])
