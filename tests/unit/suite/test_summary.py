"""What a run says of the nodes besides its findings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from gpusmith.checks.whole_cluster import Removed
from gpusmith.cluster.api import Cluster
from gpusmith.cluster.holders import Holder
from gpusmith.cluster.snapshot import Snapshot
from gpusmith.cluster.views import NodeView
from gpusmith.names import LAYOUT_LABEL, SHARE_RESOURCE
from gpusmith.node.connections import Probed
from gpusmith.node.records import parse
from gpusmith.suite import forecast, summary
from gpusmith.suite.run import Suite
from gpusmith.suite.sources import ClusterState, devices
from gpusmith.workloads.outcome import NodeOutcome
from tests.unit.hosts import UUIDS, VERSION, build
from tests.unit.records import divided_record, healthy_record, other_record


@pytest.mark.parametrize(("machine_says", "told"), [(None, {}), ("machine's", {"gpu-1": "machine's"})])
def test_what_user_land_a_node_has_is_its_own_word(
    variables: Callable[..., dict[str, Any]],
    programs: Path,
    machine_says: str | None,
    told: dict[str, str],
) -> None:
    groups = {"gpu_nodes": {"hosts": ["gpu-1"]}}
    suite = Suite(build(groups, {"gpu-1": variables()}, "inventory", ""), programs, nodes={})
    record = healthy_record()
    record["host"]["user_land"] = machine_says
    suite.sources.__dict__["probed"] = {"gpu-1": Probed(parse(record), "", "", 0.0)}
    assert summary.user_lands(suite.sources) == told


def test_what_nodes_share_is_known_of_those_that_do_not_answer_as_well(
    variables: Callable[..., dict[str, Any]], programs: Path
) -> None:
    tree = {
        "gpu_nodes": {"children": ["rack_1", "rack_2"]},
        "rack_1": {"hosts": ["gpu-1"]},
        "rack_2": {"hosts": ["gpu-2"]},
        "all": {"children": ["gpu_nodes"]},
        "others": {"hosts": ["db-1"]},
    }
    rows = {
        "gpu-1": variables(kubernetes_node_labels={"site/row": "3"}),
        "gpu-2": variables(gpusmith_gpu_model=""),
    }
    suite = Suite(build(tree, rows, "inventory", ""), programs, nodes={})
    suite.sources.__dict__["probed"] = {
        "gpu-1": Probed(None, "no answer", "", 0.0),
        "gpu-2": Probed(parse(other_record()), "", "", 0.0),
    }
    labels = {"topology.kubernetes.io/zone": "a", "other": "x"}
    taken = Snapshot({"gpu-1": NodeView("gpu-1", True, (), False, {}, {}, labels, {}, ())}, {})
    suite.sources.__dict__["cluster_state"] = ClusterState(cast("Cluster", None), taken, Removed())
    assert summary.traits(suite.sources) == {
        "gpu-1": [
            "model h100-sxm",
            "group rack_1",
            "label topology.kubernetes.io/zone=a",
            "label site/row=3",
        ],
        "gpu-2": [
            "model NVIDIA H100 80GB HBM3",
            f"driver {VERSION}",
            "kernel 6.1.0",
            "group rack_2",
        ],
    }


def test_pods_of_a_divided_node_are_given_its_instances() -> None:
    whole = devices(parse(healthy_record()))
    assert {(row.uuid, row.parent) for row in whole} == {(uuid, "") for uuid in UUIDS}
    record = divided_record()
    record["nvml"]["gpus"][0]["instances"][0]["uuid"] = None
    record["nvml"]["gpus"][1]["instances"] = None
    found = devices(parse(record))
    assert {row.gpu for row in found} == {UUIDS[0], *UUIDS[2:]}
    assert len(found) == 5
    assert all(row.uuid.startswith("MIG-") for row in found)


def test_instances_and_their_gpus_are_counted(
    variables: Callable[..., dict[str, Any]], programs: Path
) -> None:
    given = variables(kubernetes_node_taints=[])
    suite = Suite(
        build({"gpu_nodes": {"hosts": ["gpu-1"]}}, {"gpu-1": given}, "inventory", ""), programs, nodes={}
    )
    halves = "nvidia.com/mig-3g.40gb"
    team = tuple(Holder("team", f"notebook-{n}", {halves: 1}) for n in range(3))
    counts, labels = {halves: 8}, {LAYOUT_LABEL: "mig-2x3g.40gb"}
    view = NodeView("gpu-1", True, (), False, counts, counts, labels, {}, (), team)
    suite.sources.__dict__["cluster_state"] = ClusterState(
        cast("Cluster", None), Snapshot({"gpu-1": view}, {"nvidia": "nvidia"}), Removed()
    )
    said = list(forecast.lines(suite, [("workloads.cuda", "gpu-1")]))
    assert said[-1] == "  5 of 8 MIG instances of 4 GPUs on gpu-1"
    outcome = NodeOutcome(tested=tuple(UUIDS[:3]), view=view)
    suite.sources.__dict__["workload_runs"] = ({"gpu-1": outcome}, None)
    found = summary.coverage(suite.sources)["gpu-1"]
    assert (found.expected, found.shares, found.part) == (4, 2, "MIG instance")
    assert found.busy == {"pods with MIG instances, of namespace 'team'": 1}


TEAM = tuple(Holder("team", f"notebook-{n}", {SHARE_RESOURCE: 1}) for n in range(14))


@pytest.mark.parametrize(
    ("holders", "tested", "busy", "excluded"),
    [
        ((), 4, 0, 0),
        # A GPU is tested beside pods that have shares of it.
        (TEAM[:9], 4, 0, 0),
        (TEAM, 2, 2, 0),
        # More than they can fill is not tested for another reason.
        (TEAM[:5], 2, 1, 1),
        (TEAM[:3], 0, 0, 4),
    ],
)
def test_a_gpu_in_shares_is_one_gpu(
    variables: Callable[..., dict[str, Any]],
    programs: Path,
    holders: tuple[Holder, ...],
    tested: int,
    busy: int,
    excluded: int,
) -> None:
    suite = Suite(
        build({"gpu_nodes": {"hosts": ["gpu-1"]}}, {"gpu-1": variables()}, "inventory", ""),
        programs,
        nodes={},
    )
    counts, labels = {SHARE_RESOURCE: 16}, {LAYOUT_LABEL: "time-slicing-4"}
    view = NodeView("gpu-1", True, (), False, counts, counts, labels, {}, (), holders)
    suite.sources.__dict__["cluster_state"] = ClusterState(
        cast("Cluster", None), Snapshot({"gpu-1": view}, {}), Removed()
    )
    outcome = NodeOutcome(tested=tuple(UUIDS[:tested]), view=view)
    suite.sources.__dict__["workload_runs"] = ({"gpu-1": outcome}, None)
    found = summary.coverage(suite.sources)["gpu-1"]
    assert (found.expected, found.shares) == (4, 4)
    assert found.busy == ({"pods with shares, of namespace 'team'": busy} if busy else {})
    assert sum(found.excluded.values()) == excluded
    assert summary.traits(suite.sources)["gpu-1"][1:] == [f"label {LAYOUT_LABEL}=time-slicing-4"]


def test_a_look_ahead_counts_shares_and_their_gpus(
    variables: Callable[..., dict[str, Any]], programs: Path
) -> None:
    given = variables(kubernetes_node_taints=[])
    suite = Suite(
        build({"gpu_nodes": {"hosts": ["gpu-1"]}}, {"gpu-1": given}, "inventory", ""), programs, nodes={}
    )
    counts, labels = {SHARE_RESOURCE: 16}, {LAYOUT_LABEL: "time-slicing-4"}
    view = NodeView("gpu-1", True, (), False, counts, counts, labels, {}, (), TEAM[:3])
    suite.sources.__dict__["cluster_state"] = ClusterState(
        cast("Cluster", None), Snapshot({"gpu-1": view}, {"nvidia": "nvidia"}), Removed()
    )
    said = list(forecast.lines(suite, [("workloads.cuda", "gpu-1")]))
    assert said[-1] == "  13 of 16 shares of 4 GPUs on gpu-1"


def test_a_host_that_does_not_answer_is_its_node_whatever_its_letters(
    variables: Callable[..., dict[str, Any]], programs: Path
) -> None:
    groups = {"gpu_nodes": {"hosts": ["GPU-1"]}}
    suite = Suite(build(groups, {"GPU-1": variables()}, "inventory", ""), programs, nodes={})
    suite.sources.__dict__["probed"] = {"GPU-1": Probed(None, "no answer", "", 0.0)}
    assert suite.sources.node_name("GPU-1") == "gpu-1"
