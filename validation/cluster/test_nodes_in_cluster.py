"""What the API server says about each GPU node; lists only."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.check("cluster.node-ready")
def test_node_is_ready(verify: Callable[[str], None], node: str) -> None:
    """The Node exists, is Ready and not under pressure."""
    verify(node)


@pytest.mark.check("cluster.gpu-capacity")
def test_capacity_is_allocatable_is_inventory(verify: Callable[[str], None], node: str) -> None:
    """GPUs in capacity = allocatable = the inventory."""
    verify(node)


@pytest.mark.check("cluster.labels")
def test_labels(verify: Callable[[str], None], node: str) -> None:
    """The labels that schedulers and operands select by."""
    verify(node)


@pytest.mark.check("cluster.taints")
def test_taints(verify: Callable[[str], None], node: str) -> None:
    """The inventory's taints."""
    verify(node)


@pytest.mark.check("cluster.operands")
def test_operands_are_ready(verify: Callable[[str], None], node: str) -> None:
    """The device plugin and the other operands of the node are ready."""
    verify(node)
