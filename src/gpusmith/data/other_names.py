"""What names of variables mean that gpusmith does not have: the table data/other_names.yml."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from gpusmith.data import table


@cache
def load(path: Path | None = None) -> Mapping[str, str]:
    """By name, what to do, as a sentence.

    Raises:
        ToolError: the file is missing or has another shape.
    """
    return table.read(
        path,
        "other_names.yml",
        "gpusmith.other_names/1",
        "names of variables",
        lambda found: dict(_rows(found)),
    )


def _rows(content: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, ours in content["words"].items():
        yield name, f"Did you mean '{ours}'?"
    for tool in content["tools"].values():
        for name, ours in tool["names"].items():
            here = f"here it is '{ours}'" if ours else "gpusmith has none for it: take it out"
            yield name, f"It is a variable of {tool['is']}; {here}."
    for row in content["gone"]:
        for name in row["names"]:
            yield name, str(row["say"])
