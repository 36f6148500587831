"""Say in a few lines what a validation run found: ``verdict.py REPORT_DIR``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

FILES = ("report.html", "results.json", "junit.xml")


def verdict(results: dict[str, Any]) -> str:
    """One line for a ``gpusmith.results/1`` document: passed or not, of how many nodes and GPUs.

    Raises:
        KeyError: the document has another shape.
    """
    summary, nodes, gpus = results["summary"], results["coverage"]["nodes"], results["coverage"]["gpus"]
    tested = _count(nodes["tested"])
    good = not summary["failed"] and not summary["error"] and tested > 0
    simulated = " on simulated GPUs" if any(check.get("simulated") for check in results["checks"]) else ""
    return (
        f"{'PASSED' if good else 'FAILED'}{simulated}: "
        f"{tested} of {_count(nodes['expected'])} nodes and {_count(gpus['tested'])} of {_count(gpus['expected'])} GPUs tested; "
        f"checks: {summary['passed']} passed, {summary['failed']} failed, {summary['error']} errors, {summary['skipped']} skipped"
    )


def _count(value: int | list[Any]) -> int:
    return len(value) if isinstance(value, list) else value


def main(argv: list[str]) -> int:
    """Print the verdict and where the reports are; 2 if there is nothing to read."""
    if len(argv) != 2:
        print("usage: verdict.py REPORT_DIR", file=sys.stderr)
        return 2
    folder = Path(argv[1])
    try:
        line = verdict(json.loads((folder / "results.json").read_text()))
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"ERROR: '{folder / 'results.json'}' cannot be read: {error!r}.", file=sys.stderr)
        print("  Next: pytest validation --report-dir " + str(folder), file=sys.stderr)
        return 2
    print(f"==> {line}")
    print("    reports: " + ", ".join(str(folder / name) for name in FILES if (folder / name).exists()))
    return 0 if "FAILED" not in line else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
