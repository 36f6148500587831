"""The folder of the reports: emptied before a run, written whole after it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from gpusmith.errors import InputError, ToolError
from gpusmith.report import document
from gpusmith.report.html import html
from gpusmith.report.junit import junit
from gpusmith.report.prometheus import prometheus
from gpusmith.report.results import Results
from gpusmith.wait import Deadline, Done, NotYet, WaitTimeout, wait_until

MAKERS: Mapping[str, Callable[[Results], Iterable[bytes]]] = {
    "junit.xml": lambda results: [junit(results)],
    "report.html": lambda results: [html(results)],
    "metrics.prom": prometheus,
    "results.json": document.parts,
}
"""Per file what makes its parts, in the order of writing: results.json last, by which a run is known to be reported."""


_OURS: dict[Path, int] = {}
"""Folders that this process keeps, until it ends."""


def clear(folder: Path) -> None:
    """Make the folder and remove the reports of an earlier run, which must never be read as this one's.

    Raises:
        InputError: a run that goes on reports there.
        ToolError: it cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _keep(folder)
        for name in MAKERS:
            (folder / name).unlink(missing_ok=True)
        # With something in it: a full disk takes empty files.
        with tempfile.TemporaryFile(dir=folder) as some:
            some.write(b"some")
    except OSError as error:
        raise ToolError(
            f"Report folder '{folder}' cannot be used: {error.strerror}.",
            "Give --report-dir a folder that you can write to, on a disk with room.",
        ) from error


def _keep(folder: Path) -> None:
    """Refuse a folder that another process keeps: two runs would mix their evidence."""
    if folder in _OURS:
        return
    found = _lock(folder)
    if found is None:
        raise InputError(
            f"Another run of the suite writes its reports to '{folder}'.",
            "Wait for its end, or give --report-dir another folder.",
        )
    _OURS[folder] = found


def wait_until_free(folder: Path, deadline: Deadline) -> None:
    """Wait for a run that reports to a folder, which may be one that was killed and removes its pods.

    Args:
        folder: it is there.
        deadline: when to go on all the same; the suite then refuses.
    """

    def look() -> Done[None] | NotYet:
        found = _lock(folder)
        if found is None:
            return NotYet("another run reports there")
        os.close(found)
        return Done(None)

    with contextlib.suppress(WaitTimeout):
        wait_until(f"report folder '{folder}' to be free", look, deadline)


def _lock(folder: Path) -> int | None:
    """An open folder that nobody else has locked; None if somebody has. Some file systems have no locks for folders."""
    found = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(found)
        return None
    except OSError:
        pass
    return found


def write(results: Results, folder: Path) -> None:
    """Write all reports; each appears whole or not at all, and results.json last.

    Raises:
        ToolError: the folder cannot be written to.
    """
    for name, make in MAKERS.items():
        beside = folder / f".{name}.{os.getpid()}"
        try:
            with beside.open("wb") as file:
                file.writelines(make(results))
            beside.replace(folder / name)
        except OSError as error:
            with contextlib.suppress(OSError):
                beside.unlink()
            raise ToolError(
                f"Report '{folder / name}' cannot be written: {error.strerror}.",
                "Make room there, or name another folder: --report-dir, of playbooks 'gpusmith_report_dir' or"
                " 'gpu_upgrade_report_dir'.",
            ) from error
