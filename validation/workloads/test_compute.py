"""Work on the GPUs, as Kubernetes Jobs on each node; busy GPUs are left alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.check("workloads.nvidia-smi")
def test_nvidia_smi(verify: Callable[[str], None], node: str) -> None:
    """nvidia-smi in a pod lists exactly the GPUs that the pod was given."""
    verify(node)


@pytest.mark.check("workloads.network")
def test_network(verify: Callable[[str], None], node: str) -> None:
    """A pod on the node finds a Service by name, and reaches it."""
    verify(node)


@pytest.mark.check("workloads.cuda")
def test_cuda_kernel_on_every_gpu(verify: Callable[[str], None], node: str) -> None:
    """A kernel of our own computes the CPU's result on every free GPU."""
    verify(node)


@pytest.mark.check("workloads.pytorch")
def test_pytorch_training_step(verify: Callable[[str], None], node: str) -> None:
    """The loss falls, and the weights are the closed form's."""
    verify(node)


@pytest.mark.check("workloads.tensorflow")
def test_tensorflow_training_step(verify: Callable[[str], None], node: str) -> None:
    """The loss falls, and the weights are the closed form's."""
    verify(node)
