"""Command `gpusmith`: the validation suite, and its last report, from any folder."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gpusmith.errors import GpusmithError, InputError
from gpusmith.names import RESULTS_SCHEMA
from gpusmith.paths import repo_root, working_root
from gpusmith.report.diff import compare
from gpusmith.report.results import ExitCode
from gpusmith.suite.start import words_of

RESULTS = "results.json"


def main(words: Sequence[str] | None = None) -> int:
    """Entry point; the exit status of the suite, and 4 for input that cannot be used."""
    parser = argparse.ArgumentParser(
        prog="gpusmith", description="Validates NVIDIA GPU nodes of a Kubernetes cluster."
    )
    parser.add_argument("--version", action="version", version=f"gpusmith {version('gpusmith')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser(
        "validate", help="run the validation suite, with arguments of pytest ('gpusmith validate --help')"
    )
    report = commands.add_parser(
        "report",
        help="say how the last run of the suite ended, with its exit status, or compare two: report diff A B",
        epilog="To compare two runs: 'gpusmith report diff --help'.",
    )
    report.add_argument("folder", nargs="?", type=Path, help="of the reports (default: reports/latest)")
    report.add_argument("--json", action="store_true", help="print the whole results.json")
    given = list(sys.argv[1:] if words is None else words)
    if given[:1] == ["validate"]:
        return validate(given[1:])
    try:
        if given[:2] == ["report", "diff"]:
            return _diff(given[2:])
        asked = parser.parse_args(given)
        return _report(asked.folder or working_root() / "reports" / "latest", asked.json)
    except GpusmithError as error:
        print(error, file=sys.stderr)
    except (KeyError, TypeError) as error:
        print(
            f"A results.json lacks what its schema has: {error}. Run 'gpusmith validate' again.",
            file=sys.stderr,
        )
    return int(ExitCode.BAD_INPUT)


def validate(arguments: Sequence[str]) -> int:
    """Run the suite with arguments of pytest, in this process."""
    import pytest

    return int(pytest.main([*words_of(repo_root() / "validation"), *arguments]))


def _diff(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="gpusmith report diff",
        description="Says what run B found differently from run A. Exit status: 0 nothing is new, 1 something fails or cannot be"
        " asked that did not before, 4 a report cannot be read.",
    )
    for name in ("A", "B"):
        parser.add_argument(name, type=Path, help="folder of reports, or a results.json")
    asked = parser.parse_args(words)
    found = compare(*(read(path)[1] for path in (asked.A, asked.B)))
    print("\n".join(found.lines))
    return int(ExitCode.FAILED if found.new else ExitCode.PASSED)


def read(path: Path) -> tuple[str, dict[str, Any]]:
    """Text and content of a results.json, or of that in a folder.

    Raises:
        InputError: there is none, or of another schema.
    """
    path = path if path.is_file() else path / RESULTS
    try:
        text = path.read_text(encoding="utf-8")
        found: dict[str, Any] = json.loads(text)
        if found["schema"] != RESULTS_SCHEMA:
            raise InputError(
                f"'{path}' is of schema '{found['schema']}'.", "Read it with the release that wrote it."
            )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"'{path}' cannot be read: {error}.",
            "Run 'gpusmith validate', or name the folder.",
        ) from error
    return text, found


def _report(folder: Path, whole: bool) -> int:
    text, found = read(folder)
    print("\n".join([text.rstrip()] if whole else _lines(found, folder)))
    return int(found["run"]["exit_code"])


def _lines(found: Mapping[str, Any], folder: Path) -> list[str]:
    run, nodes, gpus = found["run"], found["coverage"]["nodes"], found["coverage"]["gpus"]
    lines = [f"Run {run['id']} of {run['started']}, inventory '{run['inventory']}'"]
    for row in found["checks"]:
        if row["outcome"] in ("failed", "error"):
            lines.append(f"{row['outcome'].upper()} {row['id']} on {row['target']}: {row['cause']}")
            lines += [f"  next: {row['next_step']}"] if row["next_step"] else []
    counts = ", ".join(f"{count} {outcome}" for outcome, count in found["summary"].items())
    tested = [
        f"{name}: {row['tested']} of {row['expected']} tested"
        for name, row in (("nodes", nodes), ("GPUs", gpus))
    ]
    return [*lines, "; ".join([*tested, f"checks: {counts}"]), f"{run['verdict']}; {folder / 'report.html'}"]


if __name__ == "__main__":
    sys.exit(main())
