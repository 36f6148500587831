"""What GPUs do. Nothing is computed on a simulated one: CPU time and memory of the processes that hold it stand for its own."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from simgpu import paths
from simgpu.driver import COOL_C, IDLE_MW
from simgpu.state import State

DEVICE = re.compile(r"/dev/nvidia(\d+|-uvm)$")
UVM = "-uvm"
"""Only CUDA holds it: whoever watches GPUs, as the device plugin does, has their devices open without it."""
WARMER_C = 40
"""How much warmer than an idle GPU one is that is used all the time."""
MAX_PROCESSES = 32
"""Of a GPU, in the live state."""
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


class Holder(NamedTuple):
    """A process that can compute on GPUs, with the minors of those."""

    pid: int
    minors: frozenset[str]
    cpu_s: float
    rss_mib: int


def holders() -> Iterator[Holder]:
    """The processes that hold a GPU's device and nvidia-uvm, pods' as well."""
    for folder in paths.PROCESSES.iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):  # it has ended
                names = opened(folder, DEVICE)
                if UVM in names and len(names) > 1:
                    # The name before these is in brackets, and may have blanks and brackets.
                    words = (folder / "stat").read_text().rpartition(")")[2].split()
                    cpu_s = (int(words[11]) + int(words[12])) * TICK_S
                    yield Holder(int(folder.name), names - {UVM}, cpu_s, int(words[21]) * PAGE >> 20)


def opened(folder: Path, pattern: re.Pattern[str]) -> frozenset[str]:
    """What a process has open of the devices that a pattern finds, by its first group."""
    found = set()
    for link in (folder / "fd").iterdir():
        with contextlib.suppress(OSError):  # closed since
            if match := pattern.search(str(link.readlink())):
                found.add(match[1])
    return frozenset(found)


class Meter:
    """Measures what GPUs do, from one look to the next."""

    def __init__(self) -> None:
        self._cpu_s: dict[int, float] = {}
        self._at = 0.0

    def read(self, state: State, now: float) -> None:
        """Write what GPUs do into a state.

        Args:
            state: the live state, which is written afterwards.
            now: by the monotonic clock, which the libraries read as well.
        """
        rows, period = sorted(holders()), now - self._at
        # Of a process that is new nobody knows how busy it is.
        percent = {
            row.pid: 100 * max(0.0, row.cpu_s - self._cpu_s.get(row.pid, row.cpu_s)) / period for row in rows
        }
        self._cpu_s, self._at = {row.pid: row.cpu_s for row in rows}, now
        # The driver tells processes to whoever has the same numbers for them.
        state.values["pid_namespace"] = str(Path("/proc/self/ns/pid").stat().st_ino)
        for gpu in state.gpus:
            own = [row for row in rows if gpu["minor"] in row.minors]
            _account(gpu, int(now * 1000))
            _show(gpu, own, min(100, round(sum(percent[row.pid] for row in own))), state.values)


def _account(gpu: dict[str, str], now_ms: int) -> None:
    """Add what the GPU has taken since the last look."""
    spent = int(gpu["power_mw"]) * (now_ms - int(gpu["energy_at_ms"])) // 1000
    gpu.update(energy_mj=str(int(gpu["energy_mj"]) + spent), energy_at_ms=str(now_ms))


def _show(gpu: dict[str, str], own: list[Holder], busy: int, values: dict[str, str]) -> None:
    total_mib = int(values["memory_mib"])
    limit_mw = int(gpu["limit_mw"]) or int(values["power_w"]) * 1000
    gpu.update(
        util=str(busy),
        used_mib=str(min(total_mib, sum(row.rss_mib for row in own))),
        processes=",".join(f"{row.pid}:{min(total_mib, row.rss_mib)}" for row in own[:MAX_PROCESSES]),
        power_mw=str(IDLE_MW + max(0, limit_mw - IDLE_MW) * busy // 100),
    )
    if gpu["throttle"] == "0":  # one that a fault has made hot stays so
        gpu["temp"] = str(int(COOL_C) + WARMER_C * busy // 100)
