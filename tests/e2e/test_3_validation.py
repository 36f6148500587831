"""pytest validation on validated nodes: a complete pass, its reports, its ways of being called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import Lab, Validation


@pytest.fixture(scope="module")
def whole(ready_lab: Lab) -> Validation:
    return ready_lab.validate()


def count(value: int | list[Any]) -> int:
    return len(value) if isinstance(value, list) else value


def test_everything_passes(whole: Validation) -> None:
    whole.assert_passed()
    assert whole.results["schema"] == "gpusmith.results/1"


def test_nothing_is_left_out(whole: Validation) -> None:
    coverage = whole.results["coverage"]
    assert (count(coverage["nodes"]["expected"]), count(coverage["nodes"]["tested"])) == (2, 2)
    assert (count(coverage["gpus"]["expected"]), count(coverage["gpus"]["tested"])) == (8, 8)


@pytest.mark.parametrize("workload", ["nvidia-smi", "cuda", "pytorch", "tensorflow"])
@pytest.mark.parametrize("node", ["gpu-1", "gpu-2"])
def test_each_workload_passed_on_each_node_and_says_simulated(
    whole: Validation, workload: str, node: str
) -> None:
    checks = [
        check for check in whole.results["checks"] if workload in check["id"] and check["target"] == node
    ]
    assert checks
    assert {(check["outcome"], check["simulated"]) for check in checks} == {("passed", True)}


def test_eight_distinct_gpus(whole: Validation) -> None:
    tested = whole.results["coverage"]["gpus"]["uuids"]
    assert len({row["uuid"] for row in tested}) == 8
    assert [row["node"] for row in tested].count("gpu-1") == 4


def test_reports(whole: Validation) -> None:
    assert {"results.json", "junit.xml", "report.html"} <= {path.name for path in whole.reports.iterdir()}


def test_nothing_is_left_behind(ready_lab: Lab, whole: Validation) -> None:
    names = {entry["metadata"]["name"] for entry in ready_lab.get("namespaces")["items"]}
    assert not {name for name in names if name.startswith("gpusmith-validation")}


@pytest.mark.parametrize("spelling", ["--inventory={}", "--inventory {}"])
def test_called_from_elsewhere(ready_lab: Lab, tmp_path: Path, spelling: str) -> None:
    command = [ready_lab.program("pytest"), str(ready_lab.root / "validation" / "nodes")]
    options = [*spelling.format(ready_lab.inventory).split(), "--limit=gpu-2", "--report-dir", "reports"]
    ready_lab.ok(*command, *options, cwd=tmp_path, timeout=300)
    results = json.loads((tmp_path / "reports" / "results.json").read_text())
    assert results["run"]["nodes"] == ["gpu-2"]


def test_limit_that_matches_nothing(ready_lab: Lab) -> None:
    validation = ready_lab.validate_nodes("--limit", "gpu-9")
    assert validation.ended.status not in (0, 1), str(validation.ended)
    assert "gpu-9" in validation.ended.output
