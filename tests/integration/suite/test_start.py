"""How a run of the suite is started from a playbook, and what is said of one that could not do its work."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gpusmith.errors import InputError, ToolError
from gpusmith.owner import process
from gpusmith.suite import start
from gpusmith.suite.maintenance import Maintenance
from gpusmith.suite.start import SuiteRun
from gpusmith.wait import Deadline, Done, NotYet, wait_until

OPTIONS = "def pytest_addoption(parser):\n" + "".join(
    f"    parser.addoption('--{name}')\n"
    for name in ("inventory", "limit", "report-dir", "maintenance-id", "driver-version", "tier")
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite/conftest.py").write_text(OPTIONS)
    return tmp_path


def begin(checkout: Path, test: str, timeout_s: float = 60.0) -> SuiteRun:
    (checkout / "suite/test_it.py").write_text(f"def test_it(pytestconfig):\n    {test}\n")
    where = str(checkout / "suite")
    return start.run(where, "inv", ["a", "b"], "out/reports", "out/logs/x.log", timeout_s)


def test_it_gets_inventory_hosts_and_folder_and_writes_a_log(checkout: Path) -> None:
    done = begin(checkout, "assert pytestconfig.getoption('limit') == 'a,b'")
    assert (done.status, done.trouble) == (0, "")
    assert done.results_file == str(checkout / "out/reports/results.json")
    log = (checkout / "out/logs/x.log").read_text()
    assert log.startswith("$ ")
    assert f"--inventory inv --limit a,b --report-dir {checkout}/out/reports" in log
    assert "1 passed" in log


def test_an_upgrade_says_which_one_it_is_and_what_is_to_be_tested(checkout: Path) -> None:
    (checkout / "suite/test_it.py").write_text(
        "def test_it(pytestconfig):\n"
        "    given = [pytestconfig.getoption(name) for name in ('maintenance_id', 'driver_version', 'tier')]\n"
        "    assert given == ['u1', '580.200.01', 'nodes,cluster']\n"
    )
    words = (str(checkout / "suite"), "inv", ["a"], "out/a", "a.log", 60.0)
    upgrade = Maintenance("u1", "580.200.01")
    assert start.run(*words, maintenance=upgrade, tiers=("nodes", "cluster")).status == 0
    # An option that says nothing would be refused.
    assert start.run(*words).status == 1
    assert "--tier" not in (checkout / "a.log").read_text().splitlines()[0]


def test_failed_checks_are_an_outcome(checkout: Path) -> None:
    done = begin(checkout, "assert False")
    assert (done.status, done.trouble) == (1, "")


def test_a_suite_that_could_not_work_is_named_with_the_end_of_its_log(checkout: Path) -> None:
    (checkout / "suite/conftest.py").write_text("raise SystemError('broken')\n")
    done = begin(checkout, "pass")
    assert done.status not in (0, 1, None)
    assert (
        f"could not do its work (status {done.status}). Its log is '{checkout}/out/logs/x.log'"
        in done.trouble
    )
    assert "broken" in done.trouble


@pytest.mark.parametrize(
    ("log", "says"),
    [
        ("full.log", "cannot write '.*/full.log': No space left on device"),
        ("file/x.log", "cannot write '.*/file': File exists"),
    ],
)
def test_a_log_that_cannot_be_written_is_named_and_no_suite_starts(
    log: str, says: str, checkout: Path
) -> None:
    (checkout / "full.log").symlink_to("/dev/full")
    (checkout / "file").touch()
    with pytest.raises(ToolError, match=says) as error:
        start.run(str(checkout / "suite"), "inv", ["a"], "out", log, 60.0)
    assert "'gpusmith_report_dir'" in error.value.hint


def test_a_suite_that_does_not_end_is_ended(checkout: Path) -> None:
    done = begin(checkout, "import time; time.sleep(60)", timeout_s=1.0)
    assert done.status is None
    assert "did not end within 1 s" in done.trouble


def test_the_suite_of_a_run_that_was_killed_is_ended(checkout: Path) -> None:
    """Its worker lives on after kill -9 of ansible-playbook, and nobody reads what the suite finds."""
    (checkout / "suite/test_it.py").write_text(
        "import os, pathlib, time\n"
        "def test_it():\n"
        "    pathlib.Path('pid').write_text(str(os.getpid()))\n"
        "    time.sleep(60)\n"
    )
    worker = f"from gpusmith.suite import start; start.run({str(checkout / 'suite')!r}, 'i', ['a'], 'r', 'l', 60.0)"
    leader = subprocess.Popen(
        [sys.executable, "-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {worker!r}])"]
    )
    told = checkout / "pid"
    wait_until(
        "the suite", lambda: Done(0) if told.exists() and told.read_text() else NotYet(""), Deadline(60), 0.1
    )
    suite = process(int(told.read_text()))
    leader.kill()
    leader.wait()
    wait_until("its end", lambda: NotYet("it runs") if suite.lives else Done(0), Deadline(60), 0.1)


def test_it_begins_when_a_run_that_reports_to_the_same_folder_has_ended(checkout: Path) -> None:
    reports = checkout / "out/reports"
    reports.mkdir(parents=True)
    another = os.open(reports, os.O_RDONLY)
    fcntl.flock(another, fcntl.LOCK_EX)
    ended: list[float] = []

    def end() -> None:
        ended.append(time.time())
        os.close(another)

    timer = threading.Timer(0.5, end)
    timer.start()
    done = begin(checkout, "pass")
    timer.join()
    assert (done.status, done.trouble) == (0, "")
    assert done.started >= ended[0], "its results are younger than those of the other"


def test_a_missing_suite_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'.*nowhere' does not exist. Install package"):
        start.run(str(tmp_path / "nowhere"), "i", ["a"], "r", "l", 1.0)
