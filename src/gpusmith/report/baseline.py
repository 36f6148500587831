"""Rates of a run's GPUs as a variable of the inventory, with which later runs are compared."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpusmith.data.baselines import VALUES
from gpusmith.errors import ToolError
from gpusmith.report.results import Results
from gpusmith.workloads.performance import CHECK


def text(results: Results) -> str:
    """'validation_baselines' with the medians by product name; empty if nothing was measured."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for finding in results.findings:
        for row in finding.evidence.get("devices", ()) if finding.check == CHECK else ():
            if set(VALUES) <= row.keys():
                found.setdefault(str(row["name"]), []).append(row)
    if not found:
        return ""
    lines = [
        f"# Medians of run {results.info.id} of {results.info.started}: gpusmith {results.info.version}, {results.verdict}.",
        "validation_baselines:",
    ]
    for name, rows in sorted(found.items()):
        values = {value: float(f"{statistics.median(row[value] for row in rows):.4g}") for value in VALUES}
        lines.append(f'  "{name}":  # {len(rows)} GPUs')
        lines += [f"    {value}: {rate:g}" for value, rate in values.items()]
    return "\n".join(lines) + "\n"


def write(results: Results, path: Path) -> str:
    """Write it; in words, what was done.

    Raises:
        ToolError: the file cannot be written.
    """
    content = text(results)
    if not content:
        return f"'{path}' is not written: no GPU was measured, see {CHECK}."
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise ToolError(
            f"'{path}' cannot be written: {error.strerror}.",
            "Give --record-baseline a file that you can write to.",
        ) from error
    return f"Medians of this run: '{path}'. Put them into the inventory if these GPUs are healthy."
