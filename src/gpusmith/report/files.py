"""The folder of the reports: emptied before a run, written whole after it."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from gpusmith.errors import ToolError
from gpusmith.report import document
from gpusmith.report.html import html
from gpusmith.report.junit import junit
from gpusmith.report.prometheus import prometheus
from gpusmith.report.results import Results

MAKERS: Mapping[str, Callable[[Results], Iterable[bytes]]] = {
    "junit.xml": lambda results: [junit(results)],
    "report.html": lambda results: [html(results)],
    "metrics.prom": prometheus,
    "results.json": document.parts,
}
"""Per file what makes its parts, in the order of writing: results.json last, by which a run is known to be reported."""


def clear(folder: Path) -> None:
    """Make the folder and remove the reports of an earlier run, which must never be read as this one's.

    Raises:
        ToolError: it cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
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
