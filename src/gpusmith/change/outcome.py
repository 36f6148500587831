"""What becomes of a node, and how long it is waited for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Result(StrEnum):
    """What became of a node."""

    UPGRADED = "upgraded"
    CHANGED = "changed"
    ROLLED_BACK = "rolled back"
    RELEASED = "released"
    STUCK = "left cordoned"
    UNFINISHED = "unfinished"
    UNTOUCHED = "untouched"


@dataclass(frozen=True)
class Outcome:
    """What became of a node, and why."""

    result: Result
    reason: str = ""


@dataclass(frozen=True)
class Times:
    """Seconds to wait.

    Attributes:
        drain_s: until no pod holds a GPU; then the node is released.
        users_s: until processes let go of what is changed: before pods are evicted those without a pod, afterwards all.
        operands_s: until the operands' pods are gone, until the GPUs are offered again, and until they are labelled anew.
    """

    drain_s: float = 3600.0
    users_s: float = 60.0
    operands_s: float = 300.0
