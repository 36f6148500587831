"""Keeps module reference counts in /sys and /proc current, and what GPUs do in the live state."""

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
from simgpu.usage import Meter

IN_OPEN, IN_CLOSE_NOWRITE, IN_CLOSE_WRITE = 0x20, 0x10, 0x08
CUDA = "nvidia_uvm"
"""The module that programs hold which can compute."""
PERIOD_S = 5.0
"""Between two looks at them: one reads /proc/*/fd of all processes."""
AGAIN_S = 1.0
"""After an event there is one more recount: a client may have locked late, or come while own events were dropped."""


class Kthread:
    """What the kernel recounts."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._meter = Meter()
        self._due = 0.0

    def refresh(self, now: float) -> None:
        """Recount references; look at what GPUs do while a program can compute, and once when none can any more."""
        state = State.load()
        counts = {name: references(state, name) for name in state.modules}
        # Loading this state is an open and close as well: only a change may lead to more of them.
        if counts != self.counts:
            publish(state)
        programs, before = counts.get(CUDA, 0), self.counts.get(CUDA, 0)
        if programs != before or (programs and now >= self._due):
            self._due = now + PERIOD_S
            self._meter.read(state, now)
            state.save()
        self.counts = counts

    def wait_s(self, woken: bool) -> float | None:
        """How long to wait for the next event; None if nothing happens without one."""
        return AGAIN_S if woken else PERIOD_S if self.counts.get(CUDA) else None


def kthread() -> None:
    """Refresh whenever somebody opens or closes the live file (inotify sees all namespaces)."""
    libc = ctypes.CDLL(None, use_errno=True)
    handle = libc.inotify_init()
    events = IN_OPEN | IN_CLOSE_WRITE | IN_CLOSE_NOWRITE
    if handle < 0 or libc.inotify_add_watch(handle, str(paths.LIVE).encode(), events) < 0:
        raise RefusedError(ctypes.get_errno(), "inotify")
    thread, wait_s = Kthread(), None
    while True:
        woken = bool(select.select([handle], [], [], wait_s)[0])
        while select.select([handle], [], [], 0)[0]:
            os.read(handle, 65536)
            time.sleep(0.05)  # clients lock right after they open, and often come in crowds
        with contextlib.suppress(OSError, ValueError, KeyError, IndexError), locked():
            thread.refresh(time.monotonic())
            while select.select([handle], [], [], 0.02)[0]:
                os.read(handle, 65536)
        wait_s = thread.wait_s(woken)
