"""Results: schema, coverage, exit codes, and the reports that are made of them."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from gpusmith import reports
from gpusmith.catalog import CATALOG, CLUSTER
from gpusmith.errors import ToolError
from gpusmith.findings import Finding, Outcome, Skip
from gpusmith.results import ExitCode, GpuCoverage, Results, RunInfo, gpu_coverage

INFO = RunInfo(
    "r", "2026-11-21T10:00:00Z", 1.5, "0", "inventory/lab", "", ("nodes",), True, ("gpu-1", "gpu-2")
)


def all_passed() -> tuple[Finding, ...]:
    return tuple(
        Finding(check.id, target, Outcome.PASSED, simulated=True)
        for check in CATALOG.values()
        for target in (INFO.nodes if check.per_node else (CLUSTER,))
    )


def results(*findings: Finding) -> Results:
    return Results(
        INFO,
        findings or all_passed(),
        {name: GpuCoverage(4, tuple(f"{name}-{n}" for n in range(4))) for name in INFO.nodes},
    )


FAILED = Finding(
    "nodes.ecc", "gpu-1", Outcome.FAILED, "Node 'gpu-1': <b>GPU 1</b> \x00 & co", {"n": 1}, "Reset it."
)
ERROR = Finding("cluster.api", CLUSTER, Outcome.ERROR, "no answer", {}, "Look.")
PASSED = Finding("nodes.ecc", "gpu-1", Outcome.PASSED)
SKIPPED = Finding("nodes.fabric", "gpu-1", Outcome.SKIPPED, "no switches")
BLOCKED = Finding("nodes.ecc", "gpu-2", Outcome.SKIPPED, "NVML cannot be asked", skip=Skip.BLOCKED)
REACHED = Finding("nodes.reachable", "gpu-1", Outcome.PASSED)


@pytest.mark.parametrize(
    ("findings", "code"),
    [
        ((PASSED,), ExitCode.PASSED),
        ((PASSED, SKIPPED), ExitCode.PASSED),
        ((PASSED, FAILED), ExitCode.FAILED),
        ((PASSED, ERROR), ExitCode.BROKEN),
        ((PASSED, FAILED, ERROR), ExitCode.FAILED),
        ((SKIPPED,), ExitCode.FAILED),
        # With a selection of checks, the one that says why may not be among them.
        ((PASSED, BLOCKED), ExitCode.FAILED),
        ((PASSED, ERROR, BLOCKED), ExitCode.BROKEN),
        ((REACHED,), ExitCode.FAILED),
    ],
)
def test_exit_code(findings: tuple[Finding, ...], code: ExitCode) -> None:
    assert results(*findings).exit_code is code


def test_verdict_names_what_could_not_be_asked() -> None:
    assert results(PASSED, BLOCKED).verdict == "FAILED: NVML cannot be asked"


def test_node_that_was_left_out_does_not_count_as_tested() -> None:
    left_out = replace(results(PASSED), node_reasons={"gpu-1": "cordoned"})
    assert left_out.exit_code is ExitCode.FAILED
    assert "no GPU node was tested" in left_out.verdict


def test_schema() -> None:
    data = json.loads(json.dumps(results().to_json()))
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


def test_selection_is_not_complete() -> None:
    assert results(*all_passed()[1:]).complete is False


def test_denominator_is_honest() -> None:
    row = gpu_coverage(8, ["a", "b"], {"team/train": 5}, "not allocatable")
    assert (row.expected, len(row.tested), row.busy, row.excluded) == (
        8,
        2,
        {"team/train": 5},
        {"not allocatable": 1},
    )
    assert gpu_coverage(2, ["a", "b"], {}, "x").excluded == {}


def test_reports(tmp_path: Path) -> None:
    found = results(*all_passed()[1:], FAILED, ERROR, SKIPPED)
    (tmp_path / "results.json").write_text("of an earlier run")
    reports.clear(tmp_path)
    assert list(tmp_path.iterdir()) == []
    reports.write(found, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(reports.NAMES)
    assert json.loads((tmp_path / "results.json").read_text())["run"]["exit_code"] == 1
    suites = ET.parse(tmp_path / "junit.xml").getroot()
    assert (suites.get("failures"), suites.get("errors"), suites.get("skipped")) == ("1", "1", "1")
    page = (tmp_path / "report.html").read_text()
    assert "&lt;b&gt;GPU 1&lt;/b&gt;" in page
    assert "simulated GPUs" in page
    metrics = (tmp_path / "metrics.prom").read_text()
    assert 'gpusmith_validation_gpus{node="gpu-1",simulated="true",state="tested"} 4.0' in metrics


def test_terminal_names_cause_and_next_step(tmp_path: Path) -> None:
    out = StringIO()
    reports.terminal(results(FAILED, SKIPPED), tmp_path, Console(file=out, width=100))
    assert "FAILED nodes.ecc on gpu-1" in out.getvalue()
    assert "next:  Reset it." in out.getvalue()
    assert "Simulated GPUs" in out.getvalue()
    assert "exit code 1" in out.getvalue()


def test_folder_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ToolError, match="cannot be used"):
        reports.clear(tmp_path / "file" / "below")


def test_document_lists_the_catalog(root: Path) -> None:
    page = (root / "docs" / "validation.md").read_text()
    for check in CATALOG.values():
        assert f"| `{check.id}`{'' if check.per_node else ' (once)'} | {check.proves} |" in page
