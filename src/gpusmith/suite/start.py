"""Starting the validation suite as a person would, with its output in a log."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpusmith.errors import InputError, ToolError
from gpusmith.paths import root_of
from gpusmith.report import files
from gpusmith.suite.maintenance import ID, LAYOUT, NONE, VERSION, Maintenance
from gpusmith.wait import Deadline

TAIL_LINES = 12
LOOK_S = 1.0
ENDS_IN_S = 60.0


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


def words_of(suite: Path) -> list[str]:
    """Words of pytest for the suite; of an installed one with the settings that pyproject.toml has in a checkout."""
    if (suite.parent / "pyproject.toml").is_file():
        return [str(suite)]
    settings = [
        "--import-mode=importlib",
        "-p",
        "no:cacheprovider",
        "-o",
        "empty_parameter_set_mark=fail_at_collect",
    ]
    return ["-c", os.devnull, "--rootdir", str(suite), *settings, str(suite)]


def run(
    suite: str,
    inventory: str,
    limit: Sequence[str],
    report_dir: str,
    log: str,
    timeout_s: float,
    *,
    maintenance: Maintenance = NONE,
    tiers: Sequence[str] = (),
) -> SuiteRun:
    """Run it to its end.

    Args:
        suite: folder of the suite.
        inventory: inventory source.
        limit: hosts to validate.
        report_dir: folder for results and reports.
        log: file for the output.
        timeout_s: that it may take.
        maintenance: the driver upgrade that the hosts are tested for.
        tiers: to run; all by default.

    Raises:
        InputError: there is no such suite.
        ToolError: log or folders cannot be written.
    """
    folder = Path(suite).resolve()
    here = root_of(folder.parent)
    log_file, reports = here / log, here / report_dir
    if not folder.is_dir():
        raise InputError(
            f"The validation suite '{folder}' does not exist.",
            "Install package 'gpusmith' again, or run from a checkout.",
        )
    words = [sys.executable, "-m", "pytest", *words_of(folder), "--inventory", inventory]
    words += ["--limit", ",".join(limit), "--report-dir", str(reports)]
    options = {
        ID: maintenance.id,
        VERSION: maintenance.driver_version,
        LAYOUT: maintenance.layout,
        "--tier": ",".join(tiers),
    }
    words += [word for option, value in options.items() if value for word in (option, value)]
    try:
        for made in (log_file.parent, reports):
            made.mkdir(parents=True, exist_ok=True)
        # Results and log are then those of this run, also beside one for other hosts.
        files.wait_until_free(reports, Deadline(timeout_s))
        log_file.write_text("$ " + " ".join(words) + "\n", encoding="utf-8")
    except OSError as error:
        raise ToolError(
            f"The validation suite cannot write '{error.filename or log_file}': {error.strerror}.",
            "Make room there, or name another folder with 'gpusmith_report_dir', of an upgrade 'gpu_upgrade_report_dir'.",
        ) from error
    started = time.time()
    with log_file.open("a", encoding="utf-8") as out:
        # The suite finds its configuration by its own path; the folder only decides how relative paths are read.
        status = _to_the_end(
            subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, cwd=here),
            timeout_s,
        )
    trouble = ""
    if status not in (0, 1):
        what = (
            f"did not end within {timeout_s:.0f} s"
            if status is None
            else f"could not do its work (status {status})"
        )
        trouble = f"The validation suite {what}. Its log is '{log_file}', which ends with:\n{tail(log_file)}"
    return SuiteRun(status, started, str(reports / "results.json"), trouble)


def _to_the_end(process: subprocess.Popen[bytes], timeout_s: float) -> int | None:
    """Its exit status; None if it was ended, because it took too long or because the run that wanted it was killed."""
    wanted_by, deadline = os.getppid(), Deadline(timeout_s)
    try:
        while not deadline.passed() and os.getppid() == wanted_by:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(min(LOOK_S, deadline.remaining()))
        return None
    finally:
        if process.poll() is None:
            process.terminate()  # it removes its pods then
            try:
                process.wait(ENDS_IN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def tail(path: Path) -> str:
    """The last lines of the log."""
    return "\n".join(path.read_text(encoding="utf-8", errors="replace").rstrip().splitlines()[-TAIL_LINES:])
