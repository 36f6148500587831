"""What counts as a node that offers its GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.cluster.allocatable import compare, wait_for
from gpusmith.names import GPU_RESOURCE
from gpusmith.wanted.offers import Offer, whole
from tests.unit.cluster.conftest import Memory


def node(ready: str, gpus: str | None) -> dict[str, Any]:
    """A Node object with one condition and perhaps GPUs."""
    allocatable = {"cpu": "8"} | ({GPU_RESOURCE: gpus} if gpus is not None else {})
    status = {"conditions": [{"type": "Ready", "status": ready}], "allocatable": allocatable}
    return {"metadata": {"name": "a"}, "spec": {}, "status": status}


def test_ready_node_with_all_gpus_is_reached() -> None:
    assert compare(node("True", "4"), whole(4)).reached


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
    offer = compare(seen, whole(4))
    assert not offer.reached
    assert words in offer.seen


def test_missing_label_is_named() -> None:
    offer = compare(node("True", "4"), whole(4), ["nvidia.com/gpu.count"])
    assert not offer.reached
    assert offer.seen.endswith("without nvidia.com/gpu.count")


def test_nodes_are_waited_for_until_they_offer_all() -> None:
    memory = Memory({"/api/v1/nodes/a": node("True", "3")})

    def comes_up(_: float) -> None:
        memory.objects["/api/v1/nodes/a"] = node("True", "4")

    offers = wait_for(memory.cluster, {"a": whole(4)}, [], 60.0, {}, comes_up)
    assert offers["a"].reached


def test_one_that_is_late_is_no_failure_but_said() -> None:
    offers = wait_for(Memory({}).cluster, {"a": whole(4)}, [], 0.0, {})
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

    found = wait_for(memory.cluster, {"a": whole(4)}, [], 60.0, {"a": "Bind it."}, sleep)["a"]
    assert (found.reached, bool(slept)) == (waits, waits)
    assert found.next_step == ("" if waits else "Bind it.")


def test_every_resource_that_a_node_is_to_offer_is_waited_for() -> None:
    offers = (Offer("nvidia.com/mig-1g.10gb", 8, 4), Offer("nvidia.com/mig-3g.40gb", 4, 4))
    seen = node("True", None)
    seen["status"]["allocatable"] |= {"nvidia.com/mig-1g.10gb": "8", "nvidia.com/mig-3g.40gb": "3"}
    found = compare(seen, offers)
    assert (found.reached, found.allocatable) == (False, 4)
    assert found.seen == "Ready with 8 of 8 nvidia.com/mig-1g.10gb, 3 of 4 nvidia.com/mig-3g.40gb"
