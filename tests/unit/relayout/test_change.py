"""The effects of a layout change: a label of the Node, operands that are there, and the suite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpusmith.change.budget import Rules
from gpusmith.change.node_object import NodeObject
from gpusmith.change.protocol import ChangeFailed, InUse
from gpusmith.cluster.stamps import LAYOUT
from gpusmith.errors import GpusmithError, ToolError
from gpusmith.names import LAYOUT_LABEL, MANAGED_BY, MANAGER, OPERANDS_LABEL, RESULTS_SCHEMA, STAMP
from gpusmith.relayout.change import LayoutChange
from gpusmith.suite.maintenance import Maintenance
from gpusmith.wanted.node import NodeWanted, Operands
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


class Gpus:
    """A machine whose GPUs are divided as they were last, or refuse it."""

    def __init__(self, **refused: Any) -> None:
        self.there: Any = {}
        self.refused, self.asked = refused, list[Any]()

    def __call__(self, asked: Any, look: bool) -> Any:
        self.asked.append((asked, look))
        if self.refused and not look:
            return {"failed": True, "msg": "No.", **self.refused}
        changed = self.there != asked["layout"]
        if not look:
            self.there = asked["layout"]
        return {"changed": changed}


def who(_stopped: Any, _of_pods: bool) -> list[str]:
    return ["dcgm"]


def made(
    tmp_path: Path,
    suite: Suite | None = None,
    layout: str = "",
    discovered: bool = True,
    gpus: Gpus | None = None,
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
    operands = Operands(feature_discovery="managed" if discovered else "existing")
    wanted = NodeWanted(name="gpu-1", gpu_model="h100-sxm", gpus_ignored=("10de:1fb0",), operands=operands)
    return LayoutChange("gpu-1", node, "r1", gpus or Gpus(), who, True, wanted, suite or Suite(), FACTS)  # type: ignore[arg-type]


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


def test_gpus_are_divided_before_the_label_says_so_and_made_whole_again(tmp_path: Path) -> None:
    gpus = Gpus()
    change = made(tmp_path, gpus=gpus)
    change.apply("mig-2x3g.40gb")
    halves = {"profile": "3g.40gb", "nvml": "3_SLICE", "starts": (0, 4)}
    assert gpus.asked == [({"layout": halves, "ignored": ["10de:1fb0"], "mps": False}, False)]
    assert change.is_there("mig-2x3g.40gb")
    gpus.there = {}  # somebody destroyed an instance
    assert not change.is_there("mig-2x3g.40gb")
    back = made(tmp_path, layout="mig-2x3g.40gb", gpus=gpus)
    back.apply("whole")
    assert gpus.there == {}
    assert back.is_there("whole")


@pytest.mark.parametrize(("in_use", "error"), [(True, InUse), (False, ChangeFailed)])
def test_gpus_that_cannot_be_divided_keep_their_label(
    in_use: bool, error: type[Exception], tmp_path: Path
) -> None:
    change = made(tmp_path, gpus=Gpus(in_use=in_use))
    with pytest.raises(
        error, match=r"'gpu-1' cannot be divided into 2 MIG instances 3g\.40gb of each GPU: No"
    ):
        change.apply("mig-2x3g.40gb")
    assert change.is_there("whole")


def test_programs_on_the_machine_keep_mig_from_being_switched_and_no_shares(tmp_path: Path) -> None:
    change = made(tmp_path)
    assert change.users([]) == ["dcgm"]
    change.by_mig = False
    assert not change.users([])


def test_what_the_change_puts_right_is_no_reason_not_to_begin(tmp_path: Path) -> None:
    made(tmp_path, Suite(one="nodes__gpu_layout", two="nodes__cdi")).precheck("mig-2x3g.40gb")


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


@pytest.mark.parametrize(
    ("labels", "after", "stale"),
    [
        ({"gpu.replicas": "0", "mig.strategy": "mixed", "mig-3g.40gb.count": "8"}, "mig-2x3g.40gb", False),
        ({"gpu.replicas": "0", "mig.strategy": "mixed", "mig-1g.10gb.count": "28"}, "mig-2x3g.40gb", True),
        ({"gpu.replicas": "1"}, "mig-2x3g.40gb", True),
        ({"gpu.replicas": "0", "mig.strategy": "mixed", "mig-3g.40gb.count": "8"}, "whole", True),
        ({"gpu.replicas": "1"}, "whole", False),
    ],
)
def test_labels_of_instances_are_waited_for(
    labels: dict[str, str], after: str, stale: bool, tmp_path: Path
) -> None:
    node = {"metadata": {"labels": {f"nvidia.com/{name}": value for name, value in labels.items()}}}
    assert bool(made(tmp_path).stale(node, after)) is stale


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
