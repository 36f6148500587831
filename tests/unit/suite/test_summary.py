"""What a run says of the nodes besides its findings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from gpusmith.checks.whole_cluster import Removed
from gpusmith.cluster.api import Cluster
from gpusmith.cluster.snapshot import Snapshot
from gpusmith.cluster.views import NodeView
from gpusmith.node.connections import Probed
from gpusmith.node.records import parse
from gpusmith.suite import summary
from gpusmith.suite.run import Suite
from gpusmith.suite.sources import ClusterState
from tests.unit.hosts import VERSION, build
from tests.unit.records import healthy_record, other_record


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


def test_a_host_that_does_not_answer_is_its_node_whatever_its_letters(
    variables: Callable[..., dict[str, Any]], programs: Path
) -> None:
    groups = {"gpu_nodes": {"hosts": ["GPU-1"]}}
    suite = Suite(build(groups, {"GPU-1": variables()}, "inventory", ""), programs, nodes={})
    suite.sources.__dict__["probed"] = {"GPU-1": Probed(None, "no answer", "", 0.0)}
    assert suite.sources.node_name("GPU-1") == "gpu-1"
