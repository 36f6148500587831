"""What a fault is, and changes of a record that several faults need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpusmith.problems import Cure

Record = dict[str, Any]
ADDRESS = "0000:2a:00.0"
UUID = "GPU-00000001-1111-2222-3333-444444444441"


@dataclass(frozen=True)
class Fault:
    """A broken node.

    Attributes:
        breaks: changes a healthy record.
        check: the check that must fail.
        says: words of its cause.
        others: checks that may fail as well.
        repairs: what site.yml does about it, by the role that does it. Where it is empty, site.yml does not take the fault away.
    """

    breaks: Callable[[Record], object]
    check: str
    says: tuple[str, ...]
    others: frozenset[str] = frozenset()
    repairs: Mapping[str, frozenset[Cure]] = field(default_factory=dict)


def repairs(**cures: set[Cure]) -> Mapping[str, frozenset[Cure]]:
    """Cures by role."""
    return {role: frozenset(kinds) for role, kinds in cures.items()}


def sets(*path: str | int, **values: Any) -> Callable[[Record], object]:
    """Gives fields of a part of the record other values."""

    def change(record: Record) -> None:
        part: Any = record
        for key in path:
            part = part[key]
        part.update(values)

    return change


def version(name: str, text: str) -> Callable[[Record], object]:
    return sets("packages", name, version=text)


def not_joined(record: Record) -> None:
    record["kubernetes"].update(joined=False, node_name=None)
    record["services"]["kubelet"].update(active="activating")
