"""Training steps on all free GPUs of a node, and on those of several nodes together, with PyTorch and with TensorFlow."""

from __future__ import annotations

from functools import partial

from gpusmith.workloads import jobs
from gpusmith.workloads.judge import Expected, Judged, Result, program_on_gpus, together
from gpusmith.workloads.pods import Pods
from gpusmith.workloads.register import ALL, workload

NAMES = {"pytorch": "PyTorch", "tensorflow": "TensorFlow"}


def run(pods: Pods, name: str) -> Judged:
    """A Job with all free GPUs.

    Args:
        pods: of the workload.
        name: of the framework.
    """
    env = {"GPUSMITH_NODES": pods.node.host.name}
    logs = pods.run_with_all(pods.task(name, jobs.program(f"run_{name}.py"), env=env))
    return together([judge(pods.node.expected, name, log, pods.gpus // len(logs)) for log in logs])


for _place, (_name, _title) in zip((40, 50), NAMES.items(), strict=True):
    workload(
        f"workloads.{_name}",
        place=_place,
        proves=f"{_title} trains on all free GPUs of the node together: each has a share of the data, all end with the same"
        " weights, and these match the closed form",
        fails_when=f"the loss does not fall, weights differ, numbers that GPUs add up are wrong, or {_title} gets no GPU or one"
        " that the host does not know",
        do="compare the image's CUDA version with the driver's; then run the program by hand in a pod",
        title=f"{_title} on {{gpus}} GPUs",
        gpus=ALL,
        image=_name,
        after=["workloads.cuda"],
    )(partial(run, name=_name))


def judge(expected: Expected, name: str, log: str, wanted: int) -> Judged:
    """The program ran on so many GPUs of the host.

    Args:
        expected: of the node.
        name: of the framework.
        log: what the program printed.
        wanted: how many GPUs it was given.
    """
    return program_on_gpus(expected, f"the {name} program", log, wanted, uuids)


def uuids(result: Result) -> list[str]:
    """UUIDs of the GPUs that a program says it used."""
    return [str(uuid) for uuid in result.get("uuids") or []]
