"""Processes of this machine, told apart from later ones that got the same id."""

from __future__ import annotations

from pathlib import Path


def process_start(pid: int) -> str:
    """Start time of a process in clock ticks since boot, empty if it is gone or a zombie; tells a reused pid from the old one."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if fields[0] in "ZX" else fields[19]
