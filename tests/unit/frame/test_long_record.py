"""The page that keeps results of long tests: what was not run keeps its line, what no longer exists loses it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from tests.long import conftest
from tests.long.record import PAGE, Row, merged, page, read

FLEET = Row("test_fleet.py::test_six_nodes", "passed", 300, "2026-01-02", "abc1234", "site.yml: 200 s")
DEMO = Row("test_cold_demo.py::test_cold_demo", "failed", 900, "2026-01-01", "abc0000+")


def test_what_is_gone_leaves_the_page_and_what_was_not_run_stays() -> None:
    again = Row(FLEET.test, "failed", 10, "2026-01-03", "abc9999")
    before = read(page([FLEET, DEMO]))
    assert before == {FLEET.test: FLEET, DEMO.test: DEMO}
    assert set(merged(before, [again], ["test_fleet.py", "test_cold_demo.py"])) == {again, DEMO}
    assert merged(before, [again], ["test_fleet.py"]) == [again]


def test_a_test_that_was_interrupted_keeps_its_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conftest, "checked_out", lambda root: "abc9999")
    (tmp_path / PAGE).parent.mkdir(parents=True)
    (tmp_path / PAGE).write_text(page([DEMO]))
    results = conftest.Results(tmp_path)
    phases: list[tuple[str, Literal["setup", "call", "teardown"]]] = [
        (DEMO.test, "setup"), (DEMO.test, "teardown"), (FLEET.test, "setup"), (FLEET.test, "call"),
    ]  # fmt: skip
    for test, when in phases:
        results.pytest_runtest_logreport(
            pytest.TestReport(f"tests/long/{test}", ("", 0, ""), {}, "passed", None, when)
        )
    results.pytest_sessionfinish()
    rows = read((tmp_path / PAGE).read_text())
    assert (rows[DEMO.test], rows[FLEET.test].result) == (DEMO, "passed")
