"""The end of a run: its exit code, from pytest's own status and the checks' outcomes, and what the last lines say of it."""

from __future__ import annotations

import importlib.util
import io
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gpusmith.checks.findings import Finding
from gpusmith.paths import repo_root
from gpusmith.suite.evidence import Evidence
from tests.unit.report.samples import FAILED, all_passed, results


@pytest.fixture
def hooks() -> Any:
    """The suite's own."""
    spec = importlib.util.spec_from_file_location(
        "suite_conftest", repo_root() / "validation" / "conftest.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("status", "of_the_checks", "expected"),
    [
        (0, 0, 0),
        (1, 1, 1),
        (0, 1, 1),
        (1, 3, 3),
        (5, 0, 4),
        # A failure that no check recorded is no pass.
        (1, 0, 3),
    ],
)
def test_checks_decide(status: int, of_the_checks: int, expected: int, hooks: Any) -> None:
    suite = SimpleNamespace(results=lambda: SimpleNamespace(exit_code=of_the_checks))
    assert int(hooks.exit_code_of(suite, status)) == expected


@pytest.mark.parametrize(
    ("found", "full", "code", "says"),
    [
        (all_passed(), False, 0, "PASSED"),
        (all_passed(), True, 3, "ERROR: the reports could not be written"),
        ((FAILED,), True, 3, "ERROR: the reports could not be written"),
        ((), True, 3, "No check was made."),
    ],
)
def test_the_last_lines_say_how_it_ends(
    found: tuple[Finding, ...], full: bool, code: int, says: str, hooks: Any, tmp_path: Path
) -> None:
    if full:
        (tmp_path / f".report.html.{os.getpid()}").symlink_to("/dev/full")
    out = io.StringIO()
    config = SimpleNamespace(stash=pytest.Stash(), getoption=lambda _: False)
    config.stash[hooks.SUITE] = SimpleNamespace(
        results=lambda: results(*found), findings=found, sources=SimpleNamespace(evidence=Evidence())
    )
    config.stash[hooks.FOLDER] = tmp_path
    session = cast(Any, SimpleNamespace(config=config, items=[], testsfailed=0, exitstatus=None))
    reporter = SimpleNamespace(
        ensure_newline=lambda: None,
        write_line=lambda text: print(text, file=out),
        _tw=SimpleNamespace(_file=out, hasmarkup=False, fullwidth=100),
    )
    hooks.pytest_sessionfinish(session, 1 if FAILED in found else 0)
    hooks.pytest_terminal_summary(reporter, config)
    said = out.getvalue()
    assert session.exitstatus == code
    assert says in said
    assert (f"'{tmp_path}/report.html' cannot be written: No space left on device" in said) is full
    assert (f"Reports: {tmp_path}" in said) is not full
    if found:
        assert f"(exit code {code}, " in said.splitlines()[-1]


def test_evidence_that_is_not_whole_is_the_tools_trouble(hooks: Any, tmp_path: Path) -> None:
    kept = Evidence()
    kept.trouble = "Evidence 'x' cannot be written: No space left on device."
    config = SimpleNamespace(stash=pytest.Stash(), getoption=lambda _: False)
    config.stash[hooks.SUITE] = SimpleNamespace(
        results=results, findings=all_passed(), sources=SimpleNamespace(evidence=kept)
    )
    config.stash[hooks.FOLDER] = tmp_path
    session = cast(Any, SimpleNamespace(config=config, items=[], testsfailed=0, exitstatus=None))
    hooks.pytest_sessionfinish(session, 0)
    assert (session.exitstatus, config.stash[hooks.UNWRITTEN]) == (3, kept.trouble)
