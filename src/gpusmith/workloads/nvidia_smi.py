"""nvidia-smi on all free GPUs of a node, which shows what the container runtime gives."""

from __future__ import annotations

import re

from gpusmith.checks.findings import Finding, Outcome
from gpusmith.problems import Problem
from gpusmith.workloads.judge import Expected, Judged, last_words, together, uuids_known
from gpusmith.workloads.pods import Pods
from gpusmith.workloads.register import ALL, workload

UUID = re.compile(r"\(UUID: ((?:GPU|MIG)-[0-9a-fA-F-]+)\)")


def did_not_run(found: Finding) -> str:
    """Why nothing else is made on a node whose first pod says nothing about GPUs; empty if it does."""
    failed = found.outcome is Outcome.FAILED and "uuids" not in found.evidence
    if failed or found.outcome is Outcome.ERROR:
        return "the first workload did not run; see workloads.nvidia-smi."
    return ""


@workload(
    "workloads.nvidia-smi",
    place=10,
    proves="nvidia-smi in a pod lists exactly the GPUs that the pod was given",
    fails_when="the pod does not start, or lists no GPU, another number, or a GPU that the host does not know",
    do="read the pod's events and log in the evidence; compare with 'nvidia-smi -L' on the node",
    title="nvidia-smi",
    gpus=ALL,
    blocks=did_not_run,
)
def run(pods: Pods) -> Judged:
    """A Job with all free GPUs: with one GPU too few it would not be seen."""
    logs = pods.run_with_all(pods.task("nvidia-smi", ["nvidia-smi", "-L"]))
    judged = together([judge(pods.node.expected, log, pods.gpus // len(logs)) for log in logs])
    if not judged.problems:
        pods.node.learn(judged.evidence["uuids"])
    return judged


def judge(expected: Expected, log: str, wanted: int) -> Judged:
    """``nvidia-smi -L`` lists exactly the GPUs that were given. The banner is never parsed: its words change.

    Args:
        expected: of the node.
        log: what it printed.
        wanted: how many GPUs it was given.
    """
    seen = _devices(log)
    if seen:
        return Judged({"uuids": seen}, uuids_known(expected, "nvidia-smi", seen, wanted), of_host=True)
    said = " ".join(log.split())[-200:] or "no output"
    problem = Problem(
        f"Node '{expected.node}': nvidia-smi in a pod lists no GPU: {said}.",
        "Compare with 'nvidia-smi -L' on the node; see nodes.nvml.",
        {"log": last_words(log)},
    )
    return Judged({"uuids": seen}, [problem])


def _devices(log: str) -> list[str]:
    """UUIDs of what is listed; a GPU above its parts says only whose they are."""
    found: list[str] = []
    for uuid in UUID.findall(log):
        if uuid.startswith("MIG-") and found and found[-1].startswith("GPU-"):
            found.pop()
        found.append(uuid)
    return found
