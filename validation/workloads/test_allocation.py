"""Who gets which GPU, and who gets none."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.check("workloads.allocation")
def test_one_pod_per_gpu(verify: Callable[[str], None], node: str) -> None:
    """One pod per free GPU at the same time: all UUIDs distinct and known to the host."""
    verify(node)


@pytest.mark.check("workloads.oversubscription")
def test_one_pod_too_many_waits(verify: Callable[[str], None], node: str) -> None:
    """It waits for 'Insufficient nvidia.com/gpu', then gets exactly the freed GPU."""
    verify(node)


@pytest.mark.check("workloads.isolation")
def test_no_gpu_without_request(verify: Callable[[str], None], node: str) -> None:
    """Pods without a request see no GPU, also with NVIDIA_VISIBLE_DEVICES=all."""
    verify(node)


@pytest.mark.check("workloads.cleanup")
def test_nothing_is_left(verify: Callable[[], None]) -> None:
    """Everything that this run made is gone."""
    verify()
