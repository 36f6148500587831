"""Which process something is of, and whether that process lives: a name that also other machines and containers can read."""

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
        return started(self.pid) == self.start


def place() -> str:
    """Boot and process namespace of this process; empty where there are none, as outside of Linux."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def started(pid: int) -> str:
    """When a process started, in ticks since the boot; empty if there is none."""
    try:
        # The program's name may contain blanks and brackets; what follows its last bracket does not.
        fields = (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        )
    except OSError:
        return ""
    return "" if fields[0] in ("Z", "X") else fields[19]


def process(pid: int | None = None) -> Process:
    """A process of this machine; this one, if no other is named."""
    number = os.getpid() if pid is None else pid
    return Process(place(), socket.gethostname(), number, started(number))
