"""The page that keeps results of long tests: what was not run keeps its line, what no longer exists loses it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Literal

import pytest

from tests.long.conftest import Results
from tests.long.record import PAGE, Row, merged, page, read

FLEET = Row("test_fleet.py::test_six_nodes", "passed", 300, "2026-01-02", "abc1234", "site.yml: 200 s")
DEMO = Row("test_cold_demo.py::test_cold_demo", "failed", 900, "2026-01-01", "abc0000+")


def test_a_page_is_read_as_it_was_written() -> None:
    assert read(page([FLEET, DEMO])) == {FLEET.test: FLEET, DEMO.test: DEMO}


def test_a_test_that_was_not_run_keeps_its_result() -> None:
    again = Row(FLEET.test, "failed", 10, "2026-01-03", "abc9999")
    rows = merged({FLEET.test: FLEET, DEMO.test: DEMO}, [again], ["test_fleet.py", "test_cold_demo.py"])
    assert set(rows) == {again, DEMO}


def test_a_test_that_is_gone_leaves_the_page() -> None:
    assert merged({DEMO.test: DEMO}, [FLEET], ["test_fleet.py"]) == [FLEET]


def test_a_test_that_was_interrupted_keeps_its_result(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    words = [
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@example",
        "commit",
        "--quiet",
        "--allow-empty",
        "--message=a",
    ]
    subprocess.run(["git", "-C", tmp_path, *words], check=True)
    (tmp_path / PAGE).parent.mkdir(parents=True)
    (tmp_path / PAGE).write_text(page([DEMO]))
    results = Results(tmp_path)
    phases: tuple[tuple[str, Literal["setup", "call", "teardown"]], ...] = (
        (DEMO.test, "setup"),
        (DEMO.test, "teardown"),
        (FLEET.test, "setup"),
        (FLEET.test, "call"),
    )
    for test, when in phases:
        report = pytest.TestReport(f"tests/long/{test}", ("", 0, ""), {}, "passed", None, when)
        results.pytest_runtest_logreport(report)
    results.pytest_sessionfinish()
    rows = read((tmp_path / PAGE).read_text())
    assert (rows[DEMO.test], rows[FLEET.test].result) == (DEMO, "passed")
