"""Identity of a process, and whether it lives, also for readers on other machines and in other containers."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """One process.

    Attributes:
        place: one boot of one machine, and there those processes that see each other: containers of one image have one host name.
        host: name of that machine, for people.
        pid: its number there.
        start: when it started; numbers are given out anew.
    """

    place: str
    host: str
    pid: int
    start: str

    @property
    def lives(self) -> bool | None:
        """Whether it still runs; None if that cannot be seen from here."""
        if not self.place or self.place != place():
            return None
        now = started(self.pid)
        return None if now == "" else now == self.start

    def __str__(self) -> str:
        """In one line, as an annotation keeps it."""
        return f"{self.host}/{self.place}/{self.pid}/{self.start}"


def lives(text: str) -> bool | None:
    """Whether the process of such a line still runs; None if that cannot be seen from here, or the line is none."""
    host, _, rest = text.partition("/")
    try:
        where, number, start = rest.rsplit("/", 2)
        return Process(where, host, int(number), start).lives
    except ValueError:
        return None


def place() -> str:
    """Boot and process namespace of this process; empty where there are none, as outside of Linux."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def started(pid: int) -> str | None:
    """When a process started, in ticks since the boot; None if there is none, empty if this user may not see it."""
    try:
        # The program's name may contain blanks and brackets; what follows its last bracket does not.
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        fields = text.rpartition(")")[2].split()
        return None if fields[0] in ("Z", "X") else fields[19]
    except (OSError, IndexError):
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        pass
    return ""


def process(pid: int | None = None) -> Process:
    """A process of this machine; this one, if no other is named."""
    number = os.getpid() if pid is None else pid
    return Process(place(), socket.gethostname(), number, started(number) or "")
