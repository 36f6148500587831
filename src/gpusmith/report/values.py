"""Values that a run has measured: in the evidence of its checks, by names that end with a unit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

UNITS = ("_gb_s", "_tflops", "_mhz", "_watts", "_celsius")
DEVICES = "devices"
"""Part of the evidence with a row for each GPU, which has its 'uuid'."""


def measured(evidence: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    """UUID, name and value of each; without a UUID, it is of the node."""
    rows = evidence.get(DEVICES)
    for row in (evidence, *(rows if isinstance(rows, list) else ())):
        if isinstance(row, Mapping):
            for name, value in row.items():
                if name.endswith(UNITS) and isinstance(value, int | float):
                    yield str(row.get("uuid") or ""), name, float(value)
