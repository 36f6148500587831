"""The medians of a run, as they go into the inventory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusmith.checks.findings import Finding, Outcome
from gpusmith.errors import ToolError
from gpusmith.inventory.specs import load
from gpusmith.inventory.variables import check_values
from gpusmith.report import baseline
from gpusmith.report.results import Results
from tests.unit.fake_cluster import H100
from tests.unit.report.samples import results


def measured(*rates: float) -> Results:
    def row(rate: float) -> dict[str, Any]:
        return {"uuid": f"GPU-{rate}", **H100, "memory_gb_s": rate}

    evidence = {"devices": [row(rate) for rate in rates] + [{"uuid": "GPU-x", "name": "not measured"}]}
    return results(Finding("workloads.performance", "gpu-1", Outcome.PASSED, evidence=evidence))


def test_what_is_written_is_a_variable_that_the_inventory_takes(tmp_path: Path) -> None:
    path = tmp_path / "own.yml"
    assert "if these GPUs are healthy" in baseline.write(measured(2960.4, 2970.0, 2999.0), path)
    written = yaml.safe_load(path.read_text())
    (name,) = written["validation_baselines"]
    assert name == H100["name"]
    assert written["validation_baselines"][name] == {
        "memory_gb_s": 2970, "gemm_tflops": 720, "h2d_gb_s": 54.8, "d2h_gb_s": 50
    }  # fmt: skip
    assert check_values(written, load()) == []


def test_nothing_is_written_of_a_run_that_measured_nothing(tmp_path: Path) -> None:
    path = tmp_path / "own.yml"
    assert "no GPU was measured" in baseline.write(measured(), path)
    assert not path.exists()
    with pytest.raises(ToolError, match="cannot be written"):
        baseline.write(measured(1.0), tmp_path)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (5, "must be a mapping with some of"),
        ({}, "must be a mapping with some of"),
        ({"memory": 5}, "has no key 'memory'"),
        ({"memory_gb_s": "fast"}, "must be a number above 0"),
        ({"memory_gb_s": 0}, "must be a number above 0"),
    ],
)
def test_other_values_are_refused(row: Any, says: str) -> None:
    (refusal,) = check_values({"validation_baselines": {"X": row}}, load())
    assert says in refusal.message
