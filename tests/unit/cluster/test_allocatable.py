"""What counts as a node that offers its GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.cluster.allocatable import offer_of, wait_for
from gpusmith.names import GPU_RESOURCE
from tests.unit.cluster.conftest import Memory


def node(ready: str, gpus: str | None) -> dict[str, Any]:
    """A Node object with one condition and perhaps GPUs."""
    allocatable = {"cpu": "8"} | ({GPU_RESOURCE: gpus} if gpus is not None else {})
    status = {"conditions": [{"type": "Ready", "status": ready}], "allocatable": allocatable}
    return {"metadata": {"name": "a"}, "spec": {}, "status": status}


def test_ready_node_with_all_gpus_is_reached() -> None:
    assert offer_of(node("True", "4"), 4, GPU_RESOURCE).reached


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (node("True", "3"), "Ready with 3 of 4"),
        (node("True", "5"), "Ready with 5 of 4"),
        (node("True", None), "Ready with 0 of 4"),
        (node("Unknown", "4"), "not Ready with 4 of 4"),
        (None, "no such node"),
    ],
)
def test_anything_else_is_not(seen: dict[str, Any] | None, words: str) -> None:
    offer = offer_of(seen, 4, GPU_RESOURCE)
    assert not offer.reached
    assert words in offer.seen


def test_missing_label_is_named() -> None:
    offer = offer_of(node("True", "4"), 4, GPU_RESOURCE, ["nvidia.com/gpu.count"])
    assert not offer.reached
    assert offer.seen.endswith("without nvidia.com/gpu.count")


def test_nodes_are_waited_for_until_they_offer_all() -> None:
    memory = Memory({"/api/v1/nodes/a": node("True", "3")})

    def comes_up(_: float) -> None:
        memory.objects["/api/v1/nodes/a"] = node("True", "4")

    offers = wait_for(memory.cluster, {"a": 4}, GPU_RESOURCE, [], 60.0, comes_up)
    assert offers["a"].reached


def test_one_that_is_late_is_no_failure_but_said() -> None:
    offers = wait_for(Memory({}).cluster, {"a": 4}, GPU_RESOURCE, [], 0.0)
    assert not offers["a"].reached
    assert offers["a"].seen == "the cluster has no such node"
