"""What a service gets in its environment: a file that it reads at each start, and the drop-in of its unit that names the file.

Where pods may run systemd reads no unit anew (see role serving_change). So the drop-in comes before a machine joins, with or
without a file, and a node that joined without it keeps its environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpusmith.expect import files, steps
from gpusmith.expect.files import Files
from gpusmith.probe.record import Record
from gpusmith.problems import Problem

EMPTY = "# Written by gpusmith: nothing is wanted here any more.\n"


@dataclass(frozen=True)
class Environment:
    """Of one service.

    Attributes:
        unit: the service, without '.service'.
        drop_in: path of the unit's drop-in that names the file.
        drop_in_text: its content.
        file: path of the file of variables.
        text: its content; empty if nothing is wanted.
        variable: of the inventory, for advice.
    """

    unit: str
    drop_in: str
    drop_in_text: str
    file: str
    text: str
    variable: str


def of(given: Mapping[str, Any] | None) -> Environment | None:
    """From a role's settings."""
    return Environment(**{name: str(value) for name, value in given.items()}) if given else None


def wanted(record: Record, want: Environment | None) -> Files:
    """Files that are to be there."""
    if want is None or not _can_have(record, want):
        return {}
    found = {} if record.kubernetes.joined else {want.drop_in: want.drop_in_text}
    if want.text:
        return {**found, want.file: want.text}
    return {**found, want.file: EMPTY} if want.file in record.managed_files else found


def kept(record: Record, node: str, want: Environment | None) -> list[Problem]:
    """A node that serves and whose service cannot be told."""
    if want is None or not want.text or _can_have(record, want):
        return []
    return [
        Problem(
            f"Node '{node}': '{want.unit}' does not use the inventory's proxy, since the node joined without '{want.drop_in}'.",
            f"To change it, {steps.rejoin(node)}; to leave it as it is, set '{want.variable}: {{}}' for the node.",
            {f"file_{want.drop_in}": record.managed_files.get(want.drop_in)},
        )
    ]


def _can_have(record: Record, want: Environment) -> bool:
    return not record.kubernetes.joined or not files.outdated(record, {want.drop_in: want.drop_in_text})
