"""The exit code of a run, from pytest's own status and the checks' outcomes."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace
from typing import Any

import pytest

from gpusmith.paths import repo_root


def exit_code(status: int, of_the_checks: int) -> int:
    """What the suite's hook makes of it."""
    spec = importlib.util.spec_from_file_location(
        "suite_conftest", repo_root() / "validation" / "conftest.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    suite = SimpleNamespace(results=lambda: SimpleNamespace(exit_code=of_the_checks))
    return int(module.exit_code_of(suite, status))


@pytest.mark.parametrize(
    ("status", "of_the_checks", "expected"), [(0, 0, 0), (1, 1, 1), (0, 1, 1), (1, 3, 3), (5, 0, 4)]
)
def test_checks_decide(status: int, of_the_checks: int, expected: int) -> None:
    assert exit_code(status, of_the_checks) == expected


def test_a_failure_that_no_check_recorded_is_no_pass() -> None:
    assert exit_code(1, 0) == 3
