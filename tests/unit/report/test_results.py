"""Verdict, exit code and completeness of a run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpusmith.checks.findings import Finding
from gpusmith.report.results import ExitCode, in_catalog_order
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


def test_selection_is_not_complete() -> None:
    assert results(*all_passed()[1:]).complete is False


def test_order_is_the_catalogs() -> None:
    found = all_passed()
    assert in_catalog_order(reversed(found)) == found
