"""The folder of the reports."""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from pathlib import Path

import pytest

from gpusmith.errors import InputError, ToolError
from gpusmith.report import files
from tests.unit.report.samples import ERROR, FAILED, SKIPPED, all_passed, results

NAMES = ["junit.xml", "metrics.prom", "report.html", "results.json"]


def test_reports_of_an_earlier_run_are_removed(tmp_path: Path) -> None:
    for name in (*NAMES, "notes.txt"):
        (tmp_path / name).write_text("of an earlier run")
    files.clear(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"], "what is not ours stays"


def test_reports(tmp_path: Path) -> None:
    files.write(results(*all_passed()[1:], FAILED, ERROR, SKIPPED), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == NAMES
    assert json.loads((tmp_path / "results.json").read_text())["run"]["exit_code"] == 1


def test_results_appear_after_all_that_is_made_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> bytes:
        raise ZeroDivisionError

    for name in NAMES[:3]:
        monkeypatch.setattr(files, "MAKERS", {**files.MAKERS, name: broken})
        with pytest.raises(ZeroDivisionError):
            files.write(results(), tmp_path)
        assert not (tmp_path / "results.json").exists()
        monkeypatch.undo()


def test_folder_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ToolError, match="cannot be used"):
        files.clear(tmp_path / "file" / "below")
    with pytest.raises(ToolError, match="cannot be written"):
        files.write(results(), tmp_path / "file")


def test_a_folder_that_another_process_keeps_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text("of the run that goes on")
    another = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(another, fcntl.LOCK_EX)
    with pytest.raises(InputError, match="Another run of the suite writes its reports"):
        files.clear(tmp_path)
    assert (tmp_path / "results.json").exists()
    os.close(another)
    files.clear(tmp_path)
    files.clear(tmp_path)
    assert not (tmp_path / "results.json").exists()


FULL = Path("/dev/full")
"""What is written there finds no space left."""


def test_a_full_disk_is_told_before_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: FULL.open("wb"))
    with pytest.raises(ToolError, match="cannot be used: No space left on device"):
        files.clear(tmp_path)


def test_a_disk_that_runs_full_is_told_with_the_file_and_nothing_half_is_left(tmp_path: Path) -> None:
    (tmp_path / f".report.html.{os.getpid()}").symlink_to(FULL)
    with pytest.raises(ToolError, match=r"Report '.*/report.html' cannot be written: No space left") as error:
        files.write(results(), tmp_path)
    assert "--report-dir" in error.value.hint
    assert [path.name for path in tmp_path.iterdir()] == ["junit.xml"]
