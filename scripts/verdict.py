"""Say in a few lines what a validation run found: ``verdict.py REPORT_DIR``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

FILES = ("report.html", "results.json", "junit.xml")


def verdict(results: dict[str, Any]) -> str:
    """One line for a ``gpusmith.results/1`` document: the suite's verdict, and of how many nodes and GPUs.

    Raises:
        KeyError: the document has another shape.
    """
    summary, nodes, gpus = results["summary"], results["coverage"]["nodes"], results["coverage"]["gpus"]
    return (
        f"{results['run']['verdict']}: "
        f"{nodes['tested']} of {nodes['expected']} nodes and {gpus['tested']} of {gpus['expected']} GPUs tested; "
        f"checks: {summary['passed']} passed, {summary['failed']} failed, {summary['error']} errors, {summary['skipped']} skipped"
    )


def main(argv: list[str]) -> int:
    """Print the verdict and where the reports are; the suite's exit status, or 2 if there is nothing to read."""
    if len(argv) != 2:
        print("usage: verdict.py REPORT_DIR", file=sys.stderr)
        return 2
    folder = Path(argv[1])
    try:
        results = json.loads((folder / "results.json").read_text())
        line, status = verdict(results), int(results["run"]["exit_code"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"ERROR: '{folder / 'results.json'}' cannot be read: {error!r}.", file=sys.stderr)
        print("  Next: pytest validation --report-dir " + str(folder), file=sys.stderr)
        return 2
    print(f"==> {line}")
    print("    reports: " + ", ".join(str(folder / name) for name in FILES if (folder / name).exists()))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv))
