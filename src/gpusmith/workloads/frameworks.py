"""A training step on one GPU, with PyTorch and with TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpusmith.inventory.host import Images
from gpusmith.workloads import jobs
from gpusmith.workloads.judge import Expected, Judged, program_on_gpus
from gpusmith.workloads.pods import Pods


@dataclass(frozen=True)
class Framework:
    """One framework.

    Attributes:
        name: of its pod and its program.
        title: as its makers write it.
        image: the inventory's image for it.
    """

    name: str
    title: str
    image: Callable[[Images], str]

    @property
    def check(self) -> str:
        """Id of its check."""
        return f"workloads.{self.name}"


FRAMEWORKS = (
    Framework("pytorch", "PyTorch", lambda images: images.pytorch),
    Framework("tensorflow", "TensorFlow", lambda images: images.tensorflow),
)


def run(pods: Pods, framework: Framework) -> Judged:
    """A Job with one GPU."""
    node, name = pods.node, framework.name
    task = pods.task(name, framework.image(node.host.images), jobs.program(f"run_{name}.py"), 1)
    return judge(node.expected, name, pods.run_job(task))


def judge(expected: Expected, name: str, log: str) -> Judged:
    """The program ran on a GPU of the host.

    Args:
        expected: of the node.
        name: of the framework.
        log: what the program printed.
    """
    return program_on_gpus(expected, f"the {name} program", log, 1, lambda result: [str(result.get("uuid"))])
