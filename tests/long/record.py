"""The page that keeps the last result of each long test: docs/evidence/long-tests.md."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path

PAGE = Path("docs/evidence/long-tests.md")
ROW = "row"
"""Property of a test whose result is kept in one row with those of others of its file."""
HEAD = """# Long tests

What `make test-long` found last, with date and commit of each run. `make test` does not run these. All GPUs are simulated,
or there are none: what is built from a distribution's own driver packages is never loaded.

| test | result | seconds | date | commit | measured |
| --- | --- | --- | --- | --- | --- |
"""
LINE = re.compile(r"^\| `(?P<test>[^`]+)` \| (?P<rest>.+) \|$", re.MULTILINE)


@dataclass(frozen=True)
class Row:
    """A test that was run.

    Attributes:
        test: file and function.
        result: passed, failed or skipped.
        seconds: wall time with its fixtures.
        date: day of the run, ISO 8601.
        commit: what was checked out; ends with `+` if the checkout had changes of its own.
        measured: numbers that the test found.
    """

    test: str
    result: str
    seconds: int
    date: str
    commit: str
    measured: str = ""


def read(text: str) -> dict[str, Row]:
    """The rows of a page by test."""
    rows = {}
    for match in LINE.finditer(text):
        result, seconds, date, commit, measured = (cell.strip() for cell in match["rest"].split(" | "))
        rows[match["test"]] = Row(match["test"], result, int(seconds), date, commit, measured)
    return rows


def page(rows: Iterable[Row]) -> str:
    """The page, sorted by test."""
    lines = []
    for row in sorted(rows, key=lambda row: row.test):
        test, *cells = (str(value) for value in astuple(row))
        lines.append(f"| `{test}` | {' | '.join(cells)} |")
    return HEAD + "\n".join(lines) + "\n"


def merged(before: Mapping[str, Row], found: Iterable[Row], known: Iterable[str]) -> list[Row]:
    """What was found, and the last result of each test that still exists."""
    rows = {**before, **{row.test: row for row in found}}
    files = {test.split("::")[0] for test in known}
    return [row for row in rows.values() if row.test.split("::")[0] in files]
