"""Starting the validation suite as a person would, with its output in a log."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpusmith.errors import InputError

TAIL_LINES = 12


@dataclass(frozen=True)
class SuiteRun:
    """How a run of the suite went.

    Attributes:
        status: exit status; None if it did not end in time.
        started: Unix time.
        results_file: path of the results.
        trouble: why it could not do its work; empty if it did.
    """

    status: int | None
    started: float
    results_file: str
    trouble: str = ""


def run(
    suite: str, inventory: str, limit: Sequence[str], report_dir: str, log: str, timeout_s: float
) -> SuiteRun:
    """Run it to its end.

    Args:
        suite: folder of the suite. Its parent is the checkout, which relative paths are relative to.
        inventory: inventory source.
        limit: hosts to validate.
        report_dir: folder for results and reports.
        log: file for the output.
        timeout_s: that it may take.

    Raises:
        InputError: there is no such suite.
    """
    folder = Path(suite).resolve()
    checkout = folder.parent
    log_file, reports = checkout / log, checkout / report_dir
    if not folder.is_dir():
        raise InputError(
            f"The validation suite '{folder}' does not exist.", "Run from a checkout of gpusmith."
        )
    for made in (log_file.parent, reports):
        made.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-m", "pytest", str(folder), "--inventory", inventory]
    words += ["--limit", ",".join(limit), "--report-dir", str(reports)]
    started, status = time.time(), None
    with log_file.open("w", encoding="utf-8") as out:
        out.write("$ " + " ".join(words) + "\n")
        out.flush()
        with contextlib.suppress(subprocess.TimeoutExpired):
            # The suite finds its configuration by its own path; the folder only decides how relative paths are read.
            status = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=checkout,
                timeout=timeout_s,
                check=False,
            ).returncode
    trouble = ""
    if status not in (0, 1):
        what = (
            f"did not end within {timeout_s:.0f} s"
            if status is None
            else f"could not do its work (status {status})"
        )
        trouble = f"The validation suite {what}. Its log is '{log_file}', which ends with:\n{tail(log_file)}"
    return SuiteRun(status, started, str(reports / "results.json"), trouble)


def tail(path: Path) -> str:
    """The last lines of the log."""
    return "\n".join(path.read_text(encoding="utf-8", errors="replace").rstrip().splitlines()[-TAIL_LINES:])
