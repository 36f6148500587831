"""pytest validation on validated nodes: a complete pass, its reports, its ways of being called."""

from __future__ import annotations

import re
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
    seen = set(re.findall(r"GPU-[0-9a-f]{8}-[0-9a-f-]+", str(whole.results["checks"])))
    assert len(seen) == 8


def test_reports(whole: Validation) -> None:
    assert {"results.json", "junit.xml", "report.html"} <= {path.name for path in whole.reports.iterdir()}


def test_nothing_is_left_behind(ready_lab: Lab, whole: Validation) -> None:
    names = {entry["metadata"]["name"] for entry in ready_lab.get("namespaces")["items"]}
    assert not {name for name in names if name.startswith("gpusmith-validation")}


def test_called_from_elsewhere_with_an_equals_sign(ready_lab: Lab, tmp_path: Path) -> None:
    command = [ready_lab.program("pytest"), str(ready_lab.root / "validation" / "nodes")]
    options = [f"--inventory={ready_lab.inventory}", "--limit=gpu-2", f"--report-dir={tmp_path}/reports"]
    ready_lab.ok(*command, *options, cwd=tmp_path, timeout=300)
    assert (tmp_path / "reports" / "results.json").is_file()


def test_limit_that_matches_nothing(ready_lab: Lab) -> None:
    validation = ready_lab.validate_nodes("--limit", "gpu-9")
    assert validation.ended.status not in (0, 1), str(validation.ended)
    assert "gpu-9" in validation.ended.output
