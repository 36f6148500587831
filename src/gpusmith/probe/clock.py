"""Whether somebody keeps the clock."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from dataclasses import dataclass

from gpusmith.probe.commands import Command


@dataclass(frozen=True)
class Clock:
    """The system's clock.

    Attributes:
        synchronised: 'NTPSynchronized' of timedatectl, 'yes' or 'no'; None if it does not say.
    """

    synchronised: str | None = None


def ask() -> Command:
    """Start timedatectl."""
    return Command("timedatectl", "show", "--property=NTPSynchronized", "--value")


def gather(asked: Command) -> Clock:
    """What timedatectl says. A system without it is no fault of the record: nobody is known to keep its clock."""
    return Clock((asked.output([]) or "").strip() or None)
