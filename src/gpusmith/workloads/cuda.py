"""Our CUDA kernel on all free GPUs of a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpusmith.workloads import holders, jobs
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
    every_share=True,
    covers=True,
)
def run(pods: Pods) -> Judged:
    """A Job with all free GPUs; a pod for each free share or MIG instance, where a pod gets no more than one."""
    host = pods.node.host
    load_s = host.validation.load_s
    env, program = {"GPUSMITH_LOAD_S": f"{load_s:g}"}, jobs.program("run_cuda.py")
    if pods.node.layout.shared:
        said = holders.at_once(pods, "cuda", program, holders.log_of_holder, env, load_s)
        return of_shares([judge(pods.node.expected, log, 1) for log in said.values()])
    task = pods.task("cuda", program, env=env, timeout_s=host.validation.timeout_pod_s + load_s)
    logs = pods.run_with_all(task)
    return together([judge(pods.node.expected, log, pods.gpus // len(logs)) for log in logs])


def of_shares(parts: Sequence[Judged]) -> Judged:
    """What pods proved that had parts of the same GPUs: what slowed a GPU down in one of them stays."""
    judged, slowdowns = together(parts), dict[str, dict[str, int]]()
    for uuid, row in [item for part in parts for item in (part.evidence.get("slowdowns") or {}).items()]:
        found = slowdowns.setdefault(uuid, {**row, "reasons": 0, "looks": 0})
        found.update(reasons=found["reasons"] | row["reasons"], looks=found["looks"] + row["looks"])
    return replace(judged, evidence={**judged.evidence, "slowdowns": slowdowns})


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
