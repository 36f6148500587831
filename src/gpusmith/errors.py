"""What a user is told: the exceptions, and refusals, which are collected so that one run names them all.

GpusmithError          one sentence, then a hint
├── InputError         what the user gave is wrong
└── ToolError          the tool, the lab or the way to the cluster is broken,
                       which says nothing about the system under test
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class GpusmithError(Exception):
    """A failure worth showing without a traceback.

    Args:
        message: one sentence, names in single quotes.
        hint: what to do next; empty if nothing sensible can be said.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class InputError(GpusmithError):
    """The user's input cannot be used."""


class ToolError(GpusmithError):
    """Something other than the system under test is broken."""


@dataclass(frozen=True)
class Refusal:
    """An input or a run that is refused. A value and no exception, since several are told at once.

    Attributes:
        message: one sentence, names in single quotes.
        hint: what to do next.
    """

    message: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


def all_of(refusals: Sequence[Refusal]) -> InputError:
    """Refusals as one error: a single one as it is, several in lines of their own."""
    if len(refusals) == 1:
        return InputError(refusals[0].message, refusals[0].hint)
    return InputError("\n".join(map(str, refusals)))
