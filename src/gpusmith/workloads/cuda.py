"""Our CUDA kernel on all free GPUs of a node."""

from __future__ import annotations

from dataclasses import replace

from gpusmith.workloads import jobs
from gpusmith.workloads.judge import Expected, Judged, Result, program_on_gpus
from gpusmith.workloads.pods import Pods

CHECK = "workloads.cuda"


def run(pods: Pods) -> Judged:
    """A Job with all free GPUs."""
    node = pods.node
    load_s = node.host.load_s
    env, timeout_s = {"GPUSMITH_LOAD_S": f"{load_s:g}"}, node.host.pod_timeout_s + load_s
    program, image = jobs.program("run_cuda.py"), node.host.images.cuda
    task = pods.task("cuda", image, program, node.free, env=env, timeout_s=timeout_s)
    return judge(node.expected, pods.run_job(task), node.free)


def judge(expected: Expected, log: str, wanted: int) -> Judged:
    """The program ran on every GPU that was given, and the GPUs that it named count as tested.

    Args:
        expected: of the node.
        log: what the program printed.
        wanted: how many GPUs it was given.
    """
    judged = program_on_gpus(expected, "the CUDA program", log, wanted, devices)
    return replace(judged, tested=tuple(dict.fromkeys(devices(judged.evidence))))


def devices(result: Result) -> list[str]:
    """UUIDs that the program exercised."""
    return [str(device.get("uuid")) for device in result.get("devices") or []]
