"""Command `gpusmith`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpusmith import cli
from gpusmith.suite.start import words_of

RUN = {"id": "7", "started": "2026-11-27T01:00:00Z", "inventory": "inv", "verdict": "FAILED", "exit_code": 1}
CHECK = {
    "id": "nodes.xid",
    "target": "gpu-1",
    "outcome": "failed",
    "cause": "Xid 79.",
    "next_step": "Drain it.",
}
COVERAGE = {"nodes": {"tested": 1, "expected": 2}, "gpus": {"tested": 4, "expected": 8}}


def results(folder: Path, **changes: Any) -> Path:
    whole = {
        "schema": "gpusmith.results/1",
        "run": RUN,
        "summary": {"passed": 3, "failed": 1},
        "coverage": COVERAGE,
        "checks": [CHECK, {**CHECK, "outcome": "passed"}],
    }
    (folder / "results.json").write_text(json.dumps({**whole, **changes}))
    return folder


def test_a_report_says_what_failed_and_ends_as_the_run_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["report", str(results(tmp_path))]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[1:] == [
        "FAILED nodes.xid on gpu-1: Xid 79.",
        "  next: Drain it.",
        "nodes: 1 of 2 tested; GPUs: 4 of 8 tested; checks: 3 passed, 1 failed",
        f"FAILED; {tmp_path}/report.html",
    ]
    assert cli.main(["report", "--json", str(tmp_path)]) == 1
    assert json.loads(capsys.readouterr().out)["run"]["id"] == "7"


def test_a_report_that_is_not_there_or_of_another_release_is_no_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["report", str(tmp_path)]) == 4
    assert cli.main(["report", str(results(tmp_path, schema="gpusmith.results/9"))]) == 4
    assert cli.main(["report", str(results(tmp_path, run={}))]) == 4
    said = capsys.readouterr()
    assert said.out == ""
    assert "is of schema 'gpusmith.results/9'" in said.err


def test_arguments_go_to_pytest(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def main(words: list[str]) -> int:
        asked[:] = words
        return 3

    monkeypatch.setattr(pytest, "main", main)
    assert cli.main(["validate", "--inventory", "inv", "-k", "xid"]) == 3
    assert asked[-4:] == ["--inventory", "inv", "-k", "xid"]


def test_an_installed_suite_takes_nobody_elses_settings(tmp_path: Path) -> None:
    suite = tmp_path / "validation"
    assert words_of(suite)[:2] == ["-c", "/dev/null"]
    (tmp_path / "pyproject.toml").touch()
    assert words_of(suite) == [str(suite)]
