"""The commands of the README: CI's entry, the verdict's words; and that unit tests start none."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from pathlib import Path
from types import ModuleType

import pytest


def test_ci_runs_make_test(root: Path) -> None:
    text = (root / ".ci/run").read_text()
    assert "exec make test" in text
    assert "export CI=true" in text


@pytest.mark.parametrize("name", ["bootstrap", "check", "demo", "e2e", "lock"])
def test_scripts_can_be_started(root: Path, name: str) -> None:
    script = root / "scripts" / name
    assert script.stat().st_mode & 0o111
    assert script.read_text().startswith("#!/usr/bin/env bash\n")


def test_unit_tests_start_no_program() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"starts 'true'\. Move the test to tests/integration"):
        subprocess.run(["true"])


# --- the verdict -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def verdict(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("verdict", root / "scripts/verdict.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("status", "words"), [(0, "PASSED (simulated GPUs)"), (1, "FAILED"), (130, "INTERRUPTED: what was not")]
)
def test_the_demo_ends_as_the_suite_did(
    verdict: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], status: int, words: str
) -> None:
    results = {
        "run": {"verdict": words, "exit_code": status},
        "summary": {"passed": 3, "failed": 0, "error": 0, "skipped": 0},
        "coverage": {"nodes": {"expected": 2, "tested": 2}, "gpus": {"expected": 8, "tested": 8}},
    }
    (tmp_path / "results.json").write_text(json.dumps(results))
    assert verdict.main(["verdict.py", str(tmp_path)]) == status
    told = capsys.readouterr().out
    assert f"==> {words}: 2 of 2 nodes and 8 of 8 GPUs tested" in told
    assert str(tmp_path / "results.json") in told


def test_verdict_without_results_is_an_error(verdict: ModuleType, tmp_path: Path) -> None:
    assert verdict.main(["verdict.py", str(tmp_path)]) == 2
