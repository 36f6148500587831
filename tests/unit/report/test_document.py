"""results.json, by which nodes are stamped."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from gpusmith.cluster import stamps
from gpusmith.report import document
from gpusmith.report.coverage import GpuCoverage
from tests.unit.report.samples import BLOCKED, FAILED, PASSED, all_passed, results


def test_schema() -> None:
    data = document.plain(results())
    assert data["schema"] == "gpusmith.results/1"
    assert set(data) == {"schema", "run", "summary", "coverage", "checks"}
    assert data["summary"] == {"passed": len(all_passed()), "failed": 0, "error": 0, "skipped": 0}
    assert (data["coverage"]["nodes"]["expected"], data["coverage"]["nodes"]["tested"]) == (2, 2)
    assert (data["coverage"]["gpus"]["expected"], data["coverage"]["gpus"]["tested"]) == (8, 8)
    assert len({row["uuid"] for row in data["coverage"]["gpus"]["uuids"]}) == 8
    assert set(data["checks"][0]) == {
        "id",
        "target",
        "outcome",
        "skip",
        "simulated",
        "cause",
        "evidence",
        "next_step",
        "duration_s",
    }
    assert data["run"]["complete"] is True


def test_a_run_for_an_upgrade_is_as_complete_as_any_other() -> None:
    found = results()
    told = replace(found, info=replace(found.info, maintenance_id="u1", driver_version="580.200.01"))
    run = document.plain(told)["run"]
    assert (run["maintenance_id"], run["driver_version"]) == ("u1", "580.200.01")
    assert run["complete"] is True
    assert stamps.judge(document.plain(told), "gpu-1") == stamps.Proof()
    plain = document.plain(found)["run"]
    assert (plain["maintenance_id"], plain["driver_version"]) == ("", "")


def test_a_finding_is_written_whole() -> None:
    (row,) = document.plain(results(replace(BLOCKED, evidence={"at": Path("/x")}, duration_s=1.23456)))[
        "checks"
    ]
    assert row == {
        "id": "nodes.ecc", "target": "gpu-2", "outcome": "skipped", "skip": "blocked", "simulated": False,
        "cause": "NVML cannot be asked", "evidence": {"at": "/x"}, "next_step": "", "duration_s": 1.235,
    }  # fmt: skip


def test_who_was_not_tested_is_named() -> None:
    found = replace(
        results(FAILED),
        coverage={
            "gpu-1": GpuCoverage(4, ("a",), {"team/x": 1}, {"cordoned": 2}),
            "gpu-2": GpuCoverage(4, (), {"team/y": 4}, shares=2),
        },
        node_reasons={"gpu-2": "in use"},
    )  # fmt: skip
    coverage = document.plain(found)["coverage"]
    required = {"rule": "all that nobody uses or keeps back", "nodes": 1, "gpus": None, "met": True}
    assert coverage["required"] == required
    assert coverage["nodes"] == {
        "expected": 2, "tested": 1, "busy": ["gpu-2"], "excluded": [{"node": "gpu-2", "reason": "in use"}],
    }  # fmt: skip
    assert coverage["gpus"] == {
        "expected": 8, "tested": 1, "uuids": [{"node": "gpu-1", "uuid": "a"}],
        "busy": [{"node": "gpu-1", "gpus": 1, "holder": "team/x"}, {"node": "gpu-2", "gpus": 4, "holder": "team/y"}],
        "excluded": [{"node": "gpu-1", "gpus": 2, "reason": "cordoned"}],
        "shared": [{"node": "gpu-2", "gpus": 4, "shares": 2}],
    }  # fmt: skip


def test_parts_are_the_document() -> None:
    for found in (results(FAILED, PASSED), results()):
        text = b"".join(document.parts(found)).decode()
        assert text == json.dumps(document.plain(found), indent=2) + "\n"
