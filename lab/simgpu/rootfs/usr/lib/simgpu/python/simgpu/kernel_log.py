"""The kernel log."""

from __future__ import annotations

import contextlib
import socket

ERROR, WARNING, INFO = 3, 4, 6


def klog(message: str, priority: int = INFO) -> None:
    """A line of the kernel log: into the journal with the identifier that real kernel lines have."""
    payload = (
        f"MESSAGE={message}\nPRIORITY={priority}\nSYSLOG_IDENTIFIER=kernel\nSYSLOG_FACILITY=0\n".encode()
    )
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
        out.connect("/run/systemd/journal/socket")
        out.send(payload)
