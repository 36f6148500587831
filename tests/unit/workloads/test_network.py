"""The network probe."""

from __future__ import annotations

import json
from typing import Any

from gpusmith.checks.findings import Outcome, Skip
from gpusmith.workloads.judge import Expected
from gpusmith.workloads.network import judge
from tests.unit.workloads.answers import answer, never_starts, outcomes


def test_network_is_left_out_where_the_inventory_says_so(run: Any, fake_cluster: Any) -> None:
    fake_cluster.answers["reach_service.py"] = answer(ok=False, error="no server")
    found, _ = run(values={"validation_network": False})
    rows = found["gpu-1"].findings
    assert rows.pop("workloads.network").skip is Skip.NOT_APPLICABLE
    assert {row.outcome for row in rows.values() if row.skip is not Skip.NOT_APPLICABLE} == {Outcome.PASSED}


def test_network_is_told_of_a_node_without_gpus_that_work(run: Any, fake_cluster: Any) -> None:
    never_starts(fake_cluster, "no such device", "n0-nvidia-smi-x")
    found = outcomes(run()[0]["gpu-1"])
    assert {name for name, outcome in found.items() if outcome == "passed"} == {
        "workloads.network",
        "workloads.isolation",
        "workloads.gpu-type",
    }


def test_only_a_probe_that_ran_points_at_the_network() -> None:
    log = json.dumps({"schema": "gpusmith.workload/1", "ok": False, "simulated": True, "error": "no server"})
    (failed,) = judge(Expected("gpu-1", True, None), log).problems
    assert "the network probe failed: no server" in failed.cause
    assert "kubelet's 'clusterDNS' on 'gpu-1'" in failed.next_step
    (broke,) = judge(Expected("gpu-1", True, None), "Traceback").problems
    assert broke.next_step == "Read its output in the evidence."
