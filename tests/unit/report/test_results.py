"""Verdict, exit code and completeness of a run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpusmith.checks.findings import Finding, Skip
from gpusmith.report.coverage import GpuCoverage
from gpusmith.report.results import ExitCode, Results, in_catalog_order
from tests.unit.report.samples import BLOCKED, ERROR, FAILED, PASSED, REACHED, SKIPPED, all_passed, results


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


def missing(reason: str, kept_back: bool) -> Results:
    rows = {"gpu-1": GpuCoverage(4, ("a",) * 4), "gpu-2": GpuCoverage(4, (), {}, {reason: 4}, kept_back)}
    cuda = replace(PASSED, check="workloads.cuda")
    skipped = replace(SKIPPED, target="gpu-2", skip=Skip.LEFT_OUT)
    return replace(results(cuda, skipped), coverage=rows, node_reasons={"gpu-2": reason})


def test_one_tested_node_of_many_is_no_pass() -> None:
    found = missing("nobody knows", False)
    assert found.exit_code is ExitCode.FAILED
    assert found.verdict == (
        "FAILED: only 1 of 2 nodes and 4 of 8 GPUs were tested, all that nobody uses or keeps back must be"
    )
    assert missing("cordoned", True).exit_code is ExitCode.PASSED
    asked = replace(missing("cordoned", True), min_coverage=60)
    assert asked.exit_code is ExitCode.FAILED
    assert asked.verdict == "FAILED: only 1 of 2 nodes and 4 of 5 GPUs were tested, 60 % of all must be"


def test_selection_is_not_complete() -> None:
    assert results(*all_passed()[1:]).complete is False


def test_a_run_without_monitoring_is_complete() -> None:
    found = [row for row in all_passed() if not row.check.startswith("monitoring.")]
    assert results(*found).complete is True


def test_order_is_the_catalogs() -> None:
    found = all_passed()
    assert in_catalog_order(reversed(found)) == found
