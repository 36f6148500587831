"""Keeps module reference counts in /sys and /proc current."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import time

from simgpu import paths
from simgpu.errors import RefusedError
from simgpu.files import locked
from simgpu.modules import references
from simgpu.publish import publish
from simgpu.state import State

IN_OPEN, IN_CLOSE_NOWRITE, IN_CLOSE_WRITE = 0x20, 0x10, 0x08


def kthread() -> None:
    """Recount references whenever somebody opens or closes the live file (inotify sees all namespaces)."""
    libc = ctypes.CDLL(None, use_errno=True)
    handle = libc.inotify_init()
    events = IN_OPEN | IN_CLOSE_WRITE | IN_CLOSE_NOWRITE
    if handle < 0 or libc.inotify_add_watch(handle, str(paths.LIVE).encode(), events) < 0:
        raise RefusedError(ctypes.get_errno(), "inotify")
    last: dict[str, int] = {}
    while True:
        os.read(handle, 65536)
        while True:  # clients lock right after they open, and often come in crowds
            time.sleep(0.05)
            if not select.select([handle], [], [], 0)[0]:
                break
            os.read(handle, 65536)
        with contextlib.suppress(OSError, ValueError, KeyError, IndexError), locked():
            state = State.load()
            counts = {name: references(state, name) for name in state.modules}
            # Loading this state is an open and close as well: only a change may lead to more of them.
            if counts != last:
                publish(state)
                last = counts
            while select.select([handle], [], [], 0.02)[0]:
                os.read(handle, 65536)
