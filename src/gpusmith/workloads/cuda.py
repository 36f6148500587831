"""Our CUDA kernel on all free GPUs of a node."""

from __future__ import annotations

from dataclasses import replace

from gpusmith.workloads import jobs
from gpusmith.workloads.judge import Expected, Judged, Result, program_on_gpus, together
from gpusmith.workloads.pods import Pods
from gpusmith.workloads.register import ALL, workload


@workload(
    "workloads.cuda",
    place=30,
    proves="a CUDA kernel computes the CPU's result on every free GPU",
    fails_when="a result is wrong, the program fails, a GPU is missing or unknown to the host, or the work fell back to the CPU",
    do="look at the checks of the nodes tier first, then run the program by hand in a pod",
    title="CUDA on {gpus} GPUs",
    gpus=ALL,
    after=["workloads.nvidia-smi"],
    covers=True,
)
def run(pods: Pods) -> Judged:
    """A Job with all free GPUs."""
    host = pods.node.host
    env, timeout_s = (
        {"GPUSMITH_LOAD_S": f"{host.validation.load_s:g}"},
        host.validation.timeout_pod_s + host.validation.load_s,
    )
    task = pods.task("cuda", jobs.program("run_cuda.py"), env=env, timeout_s=timeout_s)
    logs = pods.run_with_all(task)
    return together([judge(pods.node.expected, log, pods.gpus // len(logs)) for log in logs])


def judge(expected: Expected, log: str, wanted: int) -> Judged:
    """The program ran on every GPU that was given, and the GPUs that it named count as tested.

    Args:
        expected: of the node.
        log: what the program printed.
        wanted: how many GPUs it was given.
    """
    judged = program_on_gpus(expected, "the CUDA program", log, wanted, devices)
    return replace(judged, tested=expected.gpus_of(devices(judged.evidence)))


def devices(result: Result) -> list[str]:
    """UUIDs that the program exercised."""
    return [str(device.get("uuid")) for device in result.get("devices") or []]
