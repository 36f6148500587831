"""The record of the faults that are in: /var/lib/simgpu/faults.json."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NotRequired, TypedDict

from simgpu import paths

SCHEMA = "gpusmith.simgpu.faults/1"


class Packages(TypedDict):
    """Packages as they were before a fault.

    Attributes:
        versions: package -> version.
        held: those on hold.
    """

    versions: dict[str, str]
    held: list[str]


class Row(TypedDict):
    """A fault that is in.

    Attributes:
        kind: its name.
        pci: the GPU's address; None for a fault of the whole machine.
        since: seconds since 1970.
    """

    kind: str
    pci: str | None
    since: int
    code: NotRequired[int]
    remapped: NotRequired[bool]
    packages: NotRequired[Packages]


def present() -> list[Row]:
    """The faults that are in."""
    try:
        rows: list[Row] = json.loads(paths.FAULTS.read_text())["faults"]
    except (OSError, ValueError, KeyError):
        return []
    return rows


def save(rows: Sequence[Row]) -> None:
    """Write the record anew."""
    new = paths.FAULTS.with_suffix(".new")
    new.write_text(json.dumps({"schema": SCHEMA, "faults": list(rows)}, indent=1) + "\n")
    new.rename(paths.FAULTS)
