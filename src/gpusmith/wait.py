"""The one way to wait: a deadline, a named condition, three outcomes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from gpusmith.errors import GpusmithError

T = TypeVar("T")


@dataclass(frozen=True)
class Done(Generic[T]):
    """The condition holds; carries what was waited for."""

    value: T


@dataclass(frozen=True)
class NotYet:
    """The condition does not hold yet; says what was seen instead."""

    seen: str


class GiveUp(GpusmithError):  # noqa: N818 - it reads as the verb that a check uses
    """Raised by a check when waiting longer cannot help."""


class WaitTimeout(GpusmithError):  # noqa: N818
    """The deadline passed; names the condition and what was seen last."""


class Deadline:
    """A point in time, on the monotonic clock, that is shared by several waits."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._end = clock() + seconds

    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self._end - self._clock())

    def passed(self) -> bool:
        """Whether no time is left."""
        return self.remaining() == 0.0


def wait_until(
    what: str,
    check: Callable[[], Done[T] | NotYet],
    deadline: Deadline,
    tick: float = 1.0,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Call ``check`` until it is done, at least once even if the deadline has passed.

    Args:
        what: the condition in words, for the error.
        check: returns Done or NotYet, raises GiveUp when waiting is pointless.
        deadline: when to stop.
        tick: seconds between two calls.
        sleep: replaced in tests.

    Raises:
        WaitTimeout: the deadline passed.
        GiveUp: from the check.
    """
    while True:
        outcome = check()
        if isinstance(outcome, Done):
            return outcome.value
        if deadline.passed():
            raise WaitTimeout(f"Waited {deadline.seconds:.0f} s for {what}; last seen: {outcome.seen}.")
        sleep(min(tick, deadline.remaining()))
