"""What counts as a node that offers its GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.cluster.allocatable import compare, wait_for
from gpusmith.cluster.dra import SLICES
from gpusmith.names import GPU_RESOURCE, LAYOUT_LABEL, SHARE_RESOURCE
from tests.unit.cluster.conftest import Memory
from tests.unit.hosts import UUIDS
from tests.unit.objects import gpu_slice


def node(ready: str, gpus: str | None) -> dict[str, Any]:
    """A Node object with one condition and perhaps GPUs."""
    allocatable = {"cpu": "8"} | ({GPU_RESOURCE: gpus} if gpus is not None else {})
    status = {"conditions": [{"type": "Ready", "status": ready}], "allocatable": allocatable}
    return {"metadata": {"name": "a"}, "spec": {}, "status": status}


def test_ready_node_with_all_gpus_is_reached() -> None:
    assert compare(node("True", "4"), 4).reached


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
    offer = compare(seen, 4)
    assert not offer.reached
    assert words in offer.seen


def test_gpus_by_claims_are_those_of_resource_slices() -> None:
    there = node("True", None)
    there["metadata"]["labels"] = {LAYOUT_LABEL: "dra"}
    other = {**node("True", "4"), "metadata": {"name": "b"}}
    memory = Memory({"/api/v1/nodes/a": there, "/api/v1/nodes/b": other})
    found = wait_for(memory.cluster, {"a": 4, "b": 4}, [], 0, {})
    assert (found["a"].seen, found["b"].reached) == ("Ready with 0 of 4 gpu.nvidia.com", True)
    memory.objects[f"{SLICES}/a"] = gpu_slice("a", UUIDS)
    assert wait_for(memory.cluster, {"a": 4}, [], 0, {})["a"].reached


def test_missing_label_is_named() -> None:
    offer = compare(node("True", "4"), 4, ["nvidia.com/gpu.count"])
    assert not offer.reached
    assert offer.seen.endswith("without nvidia.com/gpu.count")


def test_nodes_are_waited_for_until_they_offer_all() -> None:
    memory = Memory({"/api/v1/nodes/a": node("True", "3")})

    def comes_up(_: float) -> None:
        memory.objects["/api/v1/nodes/a"] = node("True", "4")

    offers = wait_for(memory.cluster, {"a": 4}, [], 60.0, {}, comes_up)
    assert offers["a"].reached


def test_one_that_is_late_is_no_failure_but_said() -> None:
    offers = wait_for(Memory({}).cluster, {"a": 4}, [], 0.0, {})
    assert not offers["a"].reached
    assert offers["a"].seen == "the cluster has no such node"


@pytest.mark.parametrize(
    ("seen", "waits"),
    [
        (node("True", "5"), False),
        (node("True", "3"), True),
        (node("Unknown", "5"), True),
    ],
)
def test_no_time_takes_away_gpus_that_are_left_out_and_offered(seen: dict[str, Any], waits: bool) -> None:
    memory, slept = Memory({"/api/v1/nodes/a": seen}), []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        memory.objects["/api/v1/nodes/a"] = node("True", "4")

    found = wait_for(memory.cluster, {"a": 4}, [], 60.0, {"a": "Bind it."}, sleep)["a"]
    assert (found.reached, bool(slept)) == (waits, waits)
    assert found.next_step == ("" if waits else "Bind it.")


@pytest.mark.parametrize(
    ("label", "offered", "reached", "seen"),
    [
        ("time-slicing-4", {SHARE_RESOURCE: "16"}, True, "16 of 16 nvidia.com/gpu.shared"),
        ("time-slicing-4", {GPU_RESOURCE: "4"}, False, "0 of 16 nvidia.com/gpu.shared"),
        ("time-slicing-4-as-gpu", {GPU_RESOURCE: "16"}, True, "16 of 16 nvidia.com/gpu"),
        ("no-layout-of-ours", {GPU_RESOURCE: "4"}, True, "4 of 4 nvidia.com/gpu"),
    ],
)
def test_what_is_waited_for_goes_by_the_layout_that_the_node_has(
    label: str, offered: dict[str, str], reached: bool, seen: str
) -> None:
    row = node("True", None)
    row["metadata"].setdefault("labels", {})[LAYOUT_LABEL] = label
    row["status"]["allocatable"] = offered
    found = compare(row, 4)
    assert (found.reached, found.seen) == (reached, f"Ready with {seen}")
    assert found.allocatable == (4 if reached else 0)
