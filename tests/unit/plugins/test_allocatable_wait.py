"""What counts as a node that offers its GPUs."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpusmith.gpu.plugins.modules.allocatable_wait import judge

RESOURCE = "nvidia.com/gpu"


def node(ready: str, gpus: str | None) -> dict[str, Any]:
    """A Node object with one condition and perhaps GPUs."""
    allocatable = {"cpu": "8"} | ({RESOURCE: gpus} if gpus is not None else {})
    return {"status": {"conditions": [{"type": "Ready", "status": ready}], "allocatable": allocatable}}


def test_ready_node_with_all_gpus_is_reached() -> None:
    assert judge({"a": node("True", "4")}, {"a": 4}, RESOURCE)["a"]["reached"]


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (node("True", "3"), "Ready with 3 of 4"),
        (node("True", "5"), "Ready with 5 of 4"),
        (node("True", None), "Ready with 0 of 4"),
        (node("Unknown", "4"), "not Ready with 4 of 4"),
    ],
)
def test_anything_else_is_not(seen: dict[str, Any], words: str) -> None:
    verdict = judge({"a": seen}, {"a": 4}, RESOURCE)["a"]
    assert not verdict["reached"]
    assert words in verdict["seen"]


def test_missing_node_is_named() -> None:
    verdict = judge({}, {"a": 4}, RESOURCE)["a"]
    assert not verdict["reached"]
    assert "no such node" in verdict["seen"]


def test_missing_label_is_named() -> None:
    verdict = judge({"a": node("True", "4")}, {"a": 4}, RESOURCE, ["nvidia.com/gpu.count"])["a"]
    assert not verdict["reached"]
    assert verdict["seen"].endswith("without nvidia.com/gpu.count")
