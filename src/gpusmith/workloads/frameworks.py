"""A training step on one GPU, with PyTorch and with TensorFlow."""

from __future__ import annotations

from functools import partial

from gpusmith.workloads import jobs
from gpusmith.workloads.judge import Expected, Judged, program_on_gpus
from gpusmith.workloads.pods import Pods
from gpusmith.workloads.register import workload


def run(pods: Pods, name: str) -> Judged:
    """A Job with one GPU.

    Args:
        pods: of the workload.
        name: of the framework.
    """
    task = pods.task(name, jobs.program(f"run_{name}.py"))
    return judge(pods.node.expected, name, pods.run_job(task))


for _place, _name, _title in ((40, "pytorch", "PyTorch"), (50, "tensorflow", "TensorFlow")):
    workload(
        f"workloads.{_name}",
        place=_place,
        proves=f"a {_title} training step works: the loss falls and the weights match the closed form",
        fails_when=f"the loss does not fall, the weights differ, or {_title} gets no GPU or one that the host does not know",
        do="compare the image's CUDA version with the driver's; then run the program by hand in a pod",
        title=_title,
        gpus=1,
        image=_name,
        after=["workloads.cuda"],
    )(partial(run, name=_name))


def judge(expected: Expected, name: str, log: str) -> Judged:
    """The program ran on a GPU of the host.

    Args:
        expected: of the node.
        name: of the framework.
        log: what the program printed.
    """
    return program_on_gpus(expected, f"the {name} program", log, 1, lambda result: [str(result.get("uuid"))])
