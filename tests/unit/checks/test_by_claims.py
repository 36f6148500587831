"""Checks of a node that hands GPUs out by claims."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from gpusmith.checks.cluster import ClusterFacts
from gpusmith.checks.gpu_capacity import gpu_capacity
from gpusmith.cluster import dra
from gpusmith.cluster.snapshot import Snapshot
from gpusmith.cluster.views import view_of
from gpusmith.expect.identity import Machine
from gpusmith.expect.wanted import cdi_of
from gpusmith.names import LAYOUT_LABEL
from gpusmith.node.records import parse
from gpusmith.wanted.node import NodeWanted
from tests.unit.checks.judged import NODE_CHECKS
from tests.unit.hosts import UUIDS
from tests.unit.objects import MASTER, gpu_slice, node, operand
from tests.unit.records import healthy_record

MakeHost = Callable[..., NodeWanted]
DRA = {"gpusmith_gpu_sharing": "dra"}
ON_NODE = ("dra-driver-nvidia-gpu", "gpu-feature-discovery", "nfd-worker")


def facts(
    host: NodeWanted, uuids: Sequence[str] = UUIDS, pods: Sequence[str] = ON_NODE, plugin: str = "0"
) -> ClusterFacts:
    """The node, whose ResourceSlices have these GPUs, and which runs these operands."""
    counts = {"nvidia.com/gpu": plugin}
    raw = node(status__capacity=counts, status__allocatable=dict(counts))
    raw["metadata"]["labels"][LAYOUT_LABEL] = "dra"
    running = [operand(name) for name in pods]
    view = view_of(raw, running, "gpusmith-system", dra.parse([], [gpu_slice("gpu-1", uuids)]))
    machine = Machine("gpu-1", "gpu-1", "gpu-1", parse(healthy_record()))
    return ClusterFacts(host, "gpu-1", view, Snapshot({}, {}, (*running, MASTER)).ready_operands, {}, machine)


def causes(of: ClusterFacts) -> dict[str, str]:
    names = ("cluster.gpu-capacity", "cluster.gpu-layout", "cluster.gpu-owners", "cluster.operands")
    found: dict[str, Any] = {name: NODE_CHECKS[name](of) for name in names}
    return {name: " ".join(row.cause for row in rows) for name, rows in found.items() if rows}


def test_the_dra_driver_is_in_the_plugins_place(host: MakeHost) -> None:
    assert causes(facts(host(**DRA))) == {}
    (said,) = causes(facts(host(**DRA), pods=ON_NODE[1:])).values()
    assert "runs no pod of operand 'dra-driver-nvidia-gpu'" in said


@pytest.mark.parametrize(
    ("uuids", "says"),
    [
        (UUIDS[:3], "offers 3 GPUs, the inventory says 4."),
        ([], "offers 0 GPUs, the inventory says 4."),
        ([*UUIDS[:3], "GPU-other"], "its ResourceSlices have"),
    ],
)
def test_slices_with_other_gpus_than_the_machine_has_are_named(
    host: MakeHost, uuids: list[str], says: str
) -> None:
    found = facts(host(**DRA), uuids)
    assert list(causes(found)) == ["cluster.gpu-capacity"]
    (problem,) = gpu_capacity(found)
    assert says in problem.cause
    assert "DRA driver's log" in problem.next_step


def test_no_specification_of_a_device_plugin_is_missed(host: MakeHost) -> None:
    assert cdi_of(host()).restart_plugin
    assert cdi_of(host(**DRA)).restart_plugin == ""


def test_a_device_plugin_beside_it_is_a_second_owner(host: MakeHost) -> None:
    found = causes(facts(host(**DRA), plugin="4"))
    assert (
        "the device plugin offers 4 and DRA driver 'gpu.nvidia.com' offers 4" in found["cluster.gpu-owners"]
    )
    assert "also offers 4 of 'nvidia.com/gpu'" in found["cluster.gpu-capacity"]


def test_another_layout_is_named(host: MakeHost) -> None:
    found = causes(facts(host()))
    assert found == {
        "cluster.gpu-layout": "Node 'gpu-1' hands out whole GPUs by ResourceClaims, the inventory asks for whole GPUs."
    }
