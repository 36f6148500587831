"""Checks of a node whose GPUs are handed out in shares, or are to be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpusmith.checks.cluster import ClusterFacts
from gpusmith.checks.findings import NotApplicable
from gpusmith.checks.gpu_layout import gpu_layout
from gpusmith.cluster.snapshot import Snapshot
from gpusmith.cluster.views import view_of
from gpusmith.names import GPU_RESOURCE, LAYOUT_LABEL, REPLICAS_LABEL, SHARE_RESOURCE
from gpusmith.wanted.node import NodeWanted
from tests.unit.checks.judged import NODE_CHECKS
from tests.unit.checks.judged import failing_in_cluster as failing
from tests.unit.objects import MASTER, node, operands

MakeHost = Callable[..., NodeWanted]
SHARED = {"gpusmith_gpu_sharing": "time-slicing", "gpusmith_gpu_shares": 4}
READY = Snapshot({}, {}, (*operands(), MASTER)).ready_operands
HALVES = {"gpusmith_gpu_sharing": "mig", "gpusmith_gpu_mig_profile": "3g.40gb"}
BY_MPS = {**SHARED, "gpusmith_gpu_sharing": "mps"}
AS_GPU = {**SHARED, "gpusmith_gpu_share_resource": GPU_RESOURCE}


def offering(
    label: str | None = "time-slicing-4", replicas: str | None = "4", **counts: str
) -> dict[str, Any]:
    """A Node with a layout, and so many of 'shares' and 'gpus' in capacity and allocatable."""
    names = {"shares": SHARE_RESOURCE, "gpus": GPU_RESOURCE, "halves": "nvidia.com/mig-3g.40gb"}
    given = {names[name]: count for name, count in (counts or {"shares": "16"}).items()}
    made = node(status__capacity=given, status__allocatable=dict(given))
    labels = {LAYOUT_LABEL: label, REPLICAS_LABEL: replicas}
    made["metadata"]["labels"] |= {name: value for name, value in labels.items() if value is not None}
    return made


def step(check: str, host: NodeWanted, raw: dict[str, Any]) -> str:
    view = view_of(raw, operands(), "gpusmith-system")
    (problem,) = NODE_CHECKS[check](ClusterFacts(host, "gpu-1", view))
    return problem.next_step


@pytest.mark.parametrize(
    ("variables", "raw"),
    [
        (SHARED, offering()),
        (AS_GPU, offering("time-slicing-4-as-gpu", gpus="16")),
        # Feature discovery counts no replicas of MIG instances.
        (HALVES, offering("mig-2x3g.40gb", "1", halves="8")),
        (BY_MPS, offering("mps-4")),
        ({}, offering(None, "1", gpus="4")),
        ({}, offering(None, None, gpus="4")),
    ],
    ids=["shares", "as-gpu", "instances", "mps", "whole", "older feature discovery"],
)
def test_a_node_that_is_as_the_inventory_asks_passes(
    host: MakeHost, variables: dict[str, Any], raw: dict[str, Any]
) -> None:
    assert failing(host(**variables), raw, operands()) == {}


@pytest.mark.parametrize(
    ("variables", "raw", "says"),
    [
        (SHARED, offering(None, "1", gpus="4"), "hands out whole GPUs, the inventory asks for 4 shares of each GPU as"),
        ({}, offering(), "hands out 4 shares of each GPU as 'nvidia.com/gpu.shared', the inventory asks for whole GPUs."),
        (
            {**SHARED, "gpusmith_gpu_shares": 2}, offering(),
            "4 shares of each GPU as 'nvidia.com/gpu.shared', the inventory asks for 2 shares of each GPU",
        ),
        (AS_GPU, offering(), "the inventory asks for 4 shares of each GPU as 'nvidia.com/gpu'."),
        (HALVES, offering(None, "1", gpus="4"), "whole GPUs, the inventory asks for 2 MIG instances 3g.40gb of each GPU."),
        ({}, offering("mig-2x3g.40gb", "1", halves="8"), "2 MIG instances 3g.40gb of each GPU, the inventory asks for whole"),
        (SHARED, offering(replicas="2"), f"label '{REPLICAS_LABEL}' is '2'"),
        (SHARED, offering("halves", "1", gpus="4"), f"label '{LAYOUT_LABEL}' is 'halves', which is no layout of gpusmith"),
        ({}, offering("", "1", gpus="4"), f"label '{LAYOUT_LABEL}' is '', which is no layout of gpusmith"),
    ],
)  # fmt: skip
def test_another_layout_than_the_inventory_asks_for_is_named(
    host: MakeHost, variables: dict[str, Any], raw: dict[str, Any], says: str
) -> None:
    found = failing(host(**variables), raw, operands())
    assert list(found) == ["cluster.gpu-layout"], "what a node is to offer goes by the layout that it has"
    assert says in found["cluster.gpu-layout"]


def test_the_way_to_another_layout_takes_nobodys_gpu(host: MakeHost) -> None:
    said = step("cluster.gpu-layout", host(**SHARED), offering(None, "1", gpus="4"))
    assert said.startswith("Change it, which waits for pods that hold its GPUs")
    assert "playbooks/change_layout.yml -l gpu-1'" in said
    for variables, change in ((SHARED, "=time-slicing-4 --overwrite"), ({}, "-")):
        said = step("cluster.gpu-layout", host(**variables), offering("halves", "1", gpus="4"))
        assert said.endswith(f"kubectl label node gpu-1 {LAYOUT_LABEL}{change}")


def test_what_others_share_is_not_judged_by_our_layouts(host: MakeHost) -> None:
    theirs = host(gpu_operands_device_plugin="existing", gpu_operands_feature_discovery="existing")
    facts = ClusterFacts(theirs, "gpu-1", view_of(offering(None, "4", gpus="16"), [], "x"))
    with pytest.raises(NotApplicable, match="The cluster's own device plugin"):
        gpu_layout(facts)
    # A label of ours on such a node makes everybody count by it.
    assert gpu_layout(ClusterFacts(theirs, "gpu-1", view_of(offering(), [], "x")))


@pytest.mark.parametrize(
    ("capacity", "allocatable", "says"),
    [
        (
            {SHARE_RESOURCE: "16"}, {SHARE_RESOURCE: "12"},
            "12 of 16 nvidia.com/gpu.shared are allocatable, 16 are to be (4 GPUs with 4 shares each); the device plugin",
        ),
        (
            {SHARE_RESOURCE: "12"}, {SHARE_RESOURCE: "12"},
            "offers 12 nvidia.com/gpu.shared, 16 are to be (4 GPUs with 4 shares each).",
        ),
        (
            {SHARE_RESOURCE: "32"}, {SHARE_RESOURCE: "32"},
            "offers 32 nvidia.com/gpu.shared, 16 are to be (4 GPUs with 4 shares each).",
        ),
        ({}, {}, "offers no resource 'nvidia.com/gpu.shared', 16 are to be (4 GPUs with 4 shares each)."),
        # A second device plugin.
        ({SHARE_RESOURCE: "16", GPU_RESOURCE: "4"}, {SHARE_RESOURCE: "16", GPU_RESOURCE: "1"}, "also offers 4 of 'nvidia"),
        ({SHARE_RESOURCE: "16", "nvidia.com/mig-1g.10gb": "7"}, {SHARE_RESOURCE: "16", "nvidia.com/mig-1g.10gb": "7"},
         "also offers 7 of 'nvidia.com/mig"),
        # No layout of ours makes it, so it is no rest of one.
        ({SHARE_RESOURCE: "16", "nvidia.com/gpu-other": "7"}, {SHARE_RESOURCE: "16"}, "also offers 7 of 'nvidia.com/gpu-o"),
    ],
)  # fmt: skip
def test_shares_that_are_missing_or_too_many_are_named(
    host: MakeHost, capacity: dict[str, str], allocatable: dict[str, str], says: str
) -> None:
    raw = offering()
    raw["status"] |= {"capacity": capacity, "allocatable": allocatable}
    found = failing(host(**SHARED), raw, operands())
    assert list(found) == ["cluster.gpu-capacity"]
    assert says in found["cluster.gpu-capacity"]


def test_what_a_former_layout_left_in_the_capacity_is_nobodys_offer(host: MakeHost) -> None:
    raw = offering()
    raw["status"]["capacity"][GPU_RESOURCE] = "4"
    raw["status"]["allocatable"][GPU_RESOURCE] = "0"
    raw["status"]["capacity"]["nvidia.com/mig-3g.40gb"] = "8"
    assert failing(host(**SHARED), raw, operands()) == {}


def test_fields_of_others_in_the_operands_of_its_layout_are_named(host: MakeHost) -> None:
    titles = [f"DaemonSet 'gpusmith-system/nvidia-device-plugin-time-slicing-{shares}'" for shares in (4, 8)]
    fields = {title: ["spec.x"] for title in titles}
    facts = ClusterFacts(
        host(**SHARED), "gpu-1", view_of(offering(), operands(), "gpusmith-system"), READY, fields
    )
    (problem,) = NODE_CHECKS["cluster.operands"](facts)
    assert titles[0] in problem.cause
    assert titles[1] not in problem.cause


def test_instances_that_are_missing_are_named(host: MakeHost) -> None:
    for label, count, says in (
        (
            "mig-2x3g.40gb",
            "7",
            "offers 7 nvidia.com/mig-3g.40gb, 8 are to be (4 GPUs with 2 MIG instances each).",
        ),
        (
            "mig-1x7g.80gb",
            "4",
            "offers no resource 'nvidia.com/mig-7g.80gb', 4 are to be (4 GPUs with 1 MIG instances each).",
        ),
    ):
        found = failing(host(**HALVES), offering(label, "1", halves=count), operands())
        assert says in found["cluster.gpu-capacity"]
