"""Tests that take too long for `make test`. Their last results are kept in a page that is committed."""

from __future__ import annotations

import datetime as dt
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.harness import Lab
from tests.long import record
from tests.long.drawings import Browser

HERE = Path(__file__).parent
RANK = {"passed": 0, "skipped": 1, "failed": 2}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests here are end-to-end tests."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.e2e)


class Results:
    """Results of this run by test, for the page."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.outcomes: dict[str, str] = {}
        self.seconds: dict[str, float] = {}
        self.measured: dict[str, str] = {}
        self.ended: set[str] = set()
        """Tests that came to their end; of one that was interrupted only the preparation has passed."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the worst outcome of a test's phases, and the time of all."""
        test = report.nodeid.rpartition("/")[2]
        properties = dict(report.user_properties)
        if record.ROW in properties:
            test = f"{test.partition('::')[0]}::{properties.pop(record.ROW)}"
        before = self.outcomes.get(test, "passed")
        self.outcomes[test] = max(before, report.outcome, key=RANK.__getitem__)
        if report.when == "call" or report.outcome != "passed":
            self.ended.add(test)
        self.seconds[test] = self.seconds.get(test, 0.0) + report.duration
        for name, value in properties.items():
            self.measured[test] = f"{name}: {value}"

    def pytest_sessionfinish(self) -> None:
        """Write the page anew; a run that was cut short changes only the tests that ran."""
        path = self.root / record.PAGE
        before = record.read(path.read_text()) if path.exists() else {}
        date, commit = dt.datetime.now(dt.UTC).date().isoformat(), checked_out(self.root)
        found = [
            record.Row(test, result, round(self.seconds[test]), date, commit, self.measured.get(test, ""))
            for test, result in self.outcomes.items()
            if test in self.ended
        ]
        rows = record.merged(before, found, [item.name for item in HERE.glob("test_*.py")])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(record.page(rows))


def pytest_configure(config: pytest.Config) -> None:
    """Keep the results, unless nothing is to be run."""
    if not config.option.collectonly:
        config.pluginmanager.register(Results(config.rootpath), "long-tests")


def checked_out(root: Path) -> str:
    """The commit, with a `+` if files differ from it."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True).stdout

    changed = [
        line for line in git("status", "--porcelain").splitlines() if not line.endswith(str(record.PAGE))
    ]
    return git("rev-parse", "--short", "HEAD").strip() + ("+" if changed else "")


@pytest.fixture
def no_lab(root: Path) -> Iterator[Lab]:
    """The commands, with no lab up before and after."""
    lab = Lab(root, root / ".cache" / "long" / str(int(time.time())))
    lab.gpulab("down")
    yield lab
    lab.gpulab("down")


@pytest.fixture
def measured(record_property: Callable[[str, object], None]) -> Callable[[str, object], None]:
    """Keeps a number that a test found for the page."""
    return record_property


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    """Chromium's answer: an address, and what to do with it."""
    if not shutil.which("chromium"):
        pytest.skip("apt-get install chromium")
    always = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]

    def run(url: str, *words: str) -> str:
        command = ["chromium", *always, f"--user-data-dir={tmp_path / 'profile'}", *words, url]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout

    return run
