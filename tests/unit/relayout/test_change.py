"""The effects of a layout change: a label of the Node, operands that are there, and the suite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpusmith.change.budget import Rules
from gpusmith.change.node_object import NodeObject
from gpusmith.change.protocol import ChangeFailed
from gpusmith.cluster.stamps import LAYOUT
from gpusmith.errors import GpusmithError, ToolError
from gpusmith.names import LAYOUT_LABEL, MANAGED_BY, MANAGER, OPERANDS_LABEL, RESULTS_SCHEMA, STAMP
from gpusmith.relayout.change import LayoutChange
from gpusmith.suite.maintenance import Maintenance
from tests.unit import objects
from tests.unit.cluster.conftest import Memory

NODE = "/api/v1/nodes/gpu-1"
FACTS = {"driver": "1", "kernel": "2", "runtime": "3", "simulated": True, "digest": "d"}


class Suite:
    """Says what it is told to, and remembers what it was asked."""

    report_dir = Path("reports")

    def __init__(self, **failed: str) -> None:
        self.failed, self.asked = failed, list[Any]()

    def run(self, name: str, host: str, maintenance: Maintenance, tiers: Any = ()) -> dict[str, Any]:
        self.asked.append((name, maintenance, tuple(tiers)))
        rows = [{"id": "nodes.driver", "target": host, "outcome": "passed"}]
        rows += [
            {"id": f"{tier}.{name.replace('_', '-')}", "target": host, "outcome": "failed", "cause": "Bad."}
            for tier, name in (row.split("__") for row in self.failed.values())
        ]
        coverage: dict[str, Any] = {"nodes": {"excluded": []}, "gpus": {"busy": [], "excluded": []}}
        return {
            "schema": RESULTS_SCHEMA,
            "run": {"complete": True, "nodes": [host]},
            "coverage": coverage,
            "checks": rows,
        }


def made(
    tmp_path: Path, suite: Suite | None = None, layout: str = "", discovered: bool = True
) -> LayoutChange:
    there = objects.node(metadata__resourceVersion="7", metadata__annotations={})
    labels = there["metadata"]["labels"]
    labels |= {LAYOUT_LABEL: layout} if layout else {}
    own: dict[str, Any] = {
        f"f:{key}": {} for key in (OPERANDS_LABEL, "gpu-type", *([LAYOUT_LABEL] if layout else []))
    }
    there["metadata"]["managedFields"] = [
        {"manager": MANAGER, "operation": "Apply", "fieldsV1": {"f:metadata": {"f:labels": own}}}
    ]
    plugin = {"metadata": {"name": "nvidia-device-plugin-time-slicing-4", "labels": {MANAGED_BY: MANAGER}}}
    memory = Memory({NODE: there, "/apis/apps/v1/namespaces/s/daemonsets/p": plugin})
    node = NodeObject(memory.cluster, "gpu-1", Rules("r1", ""), ["gpu-1"], {"gpu-1": 4}, LAYOUT, tmp_path)
    return LayoutChange("gpu-1", node, "r1", suite or Suite(), FACTS, False, discovered)  # type: ignore[arg-type]


def test_a_label_comes_and_goes_beside_our_other_labels(tmp_path: Path) -> None:
    change = made(tmp_path)
    assert change.is_there("whole")
    for _ in range(2):
        change.apply("time-slicing-4")
        assert change.is_there("time-slicing-4")
        ours = {"gpu-type": "h100-sxm", OPERANDS_LABEL: "enabled", LAYOUT_LABEL: "time-slicing-4"}
        assert change.node.node()["metadata"]["labels"].items() >= ours.items()


def test_a_layout_is_taken_off(tmp_path: Path) -> None:
    change = made(tmp_path, layout="time-slicing-4")
    change.apply("whole")
    assert change.is_there("whole")
    assert LAYOUT_LABEL not in change.node.node()["metadata"]["labels"]


def test_a_name_of_another_release_is_no_layout(tmp_path: Path) -> None:
    with pytest.raises(GpusmithError, match="'mig-1' is no layout of this release"):
        made(tmp_path).apply("mig-1")


@pytest.mark.parametrize(
    ("before", "after", "discovered", "stale"),
    [("1", "time-slicing-4", True, True), ("4", "time-slicing-4", True, False), ("4", "whole", True, True),
     ("4", "whole", False, False)],
)  # fmt: skip
def test_feature_discovery_is_waited_for_where_it_is_ours(
    before: str, after: str, discovered: bool, stale: bool, tmp_path: Path
) -> None:
    node = {"metadata": {"labels": {"nvidia.com/gpu.replicas": before}}}
    assert bool(made(tmp_path, discovered=discovered).stale(node, after)) is stale


def test_the_suite_looks_for_the_layout_that_the_node_has(tmp_path: Path) -> None:
    suite = Suite()
    change = made(tmp_path, suite)
    change.precheck("whole")
    change.apply("time-slicing-4")
    change.prove("time-slicing-4")
    assert suite.asked == [
        ("before", Maintenance(layout="whole"), ("nodes", "cluster")),
        ("time-slicing-4", Maintenance("r1", layout="time-slicing-4"), ()),
    ]
    assert '"layout": "time-slicing-4"' in change.node.node()["metadata"]["annotations"][STAMP]


@pytest.mark.parametrize(
    ("failed", "error"),
    [
        ("workloads__allocation", ChangeFailed),
        ("workloads__network", ToolError),
        ("cluster__labels", ToolError),
    ],
)
def test_only_what_a_layout_can_be_blamed_for_brings_it_back(
    failed: str, error: type[Exception], tmp_path: Path
) -> None:
    change = made(tmp_path, Suite(one=failed))
    with pytest.raises(error) as found:
        change.prove("whole")
    assert type(found.value) is error


def test_a_broken_node_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    with pytest.raises(GpusmithError, match=r"is broken before anything was done to it: nodes\.xid: Bad"):
        made(tmp_path, Suite(one="nodes__xid")).precheck("whole")
