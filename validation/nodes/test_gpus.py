"""The GPUs of a node: how many, which, and how healthy."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.check("nodes.gpu-count")
def test_counts_agree(verify: Callable[[str], None], node: str) -> None:
    """GPUs on PCI = in NVML = in /dev = in the inventory."""
    verify(node)


@pytest.mark.check("nodes.gpu-model")
def test_gpus_are_of_the_model(verify: Callable[[str], None], node: str) -> None:
    """PCI id, name and memory are those of the inventory's model."""
    verify(node)


@pytest.mark.check("nodes.ecc")
def test_no_uncorrectable_memory_errors(verify: Callable[[str], None], node: str) -> None:
    """ECC is on, and there was no uncorrectable memory error since the driver was loaded."""
    verify(node)


@pytest.mark.check("nodes.row-remap")
def test_no_row_remapping_waits(verify: Callable[[str], None], node: str) -> None:
    """No memory row waits for or failed remapping."""
    verify(node)


@pytest.mark.check("nodes.xid")
def test_no_xid(verify: Callable[[str], None], node: str) -> None:
    """No Xid since the driver was loaded, but for those that the inventory accepts."""
    verify(node)


@pytest.mark.check("nodes.throttle")
def test_no_slowdown(verify: Callable[[str], None], node: str) -> None:
    """No GPU is slowed down by heat, hardware or power."""
    verify(node)


@pytest.mark.check("nodes.pcie-width")
def test_all_pcie_lanes(verify: Callable[[str], None], node: str) -> None:
    """Every GPU has all its PCIe lanes."""
    verify(node)


@pytest.mark.check("nodes.processes")
def test_nobody_else_uses_the_gpus(verify: Callable[[str], None], node: str) -> None:
    """No process outside of Kubernetes' pods computes on a GPU."""
    verify(node)
