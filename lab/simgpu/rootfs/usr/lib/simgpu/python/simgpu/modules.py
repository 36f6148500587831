"""The modules that the simulated kernel knows, and who uses them."""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

from simgpu import paths
from simgpu.files import read
from simgpu.state import State

BYTES = {"nvidia": 0, "nvidia_uvm": 1, "nvidia_modeset": 2, "nvidia_drm": 3, "nvidia_peermem": 4}
"""Byte of the live file that stands for each module's reference count."""
DEPENDS: dict[str, tuple[str, ...]] = {
    "nvidia": (),
    "nvidia_uvm": ("nvidia",),
    "nvidia_modeset": ("nvidia",),
    "nvidia_drm": ("nvidia_modeset", "nvidia"),
    "nvidia_peermem": ("nvidia",),
}
SIZES = {
    "nvidia": 14393344,
    "nvidia_uvm": 2076672,
    "nvidia_modeset": 1814528,
    "nvidia_drm": 139264,
    "nvidia_peermem": 16384,
}
F_OFD_SETLK = 37


def named(word: str) -> str:
    """A module's name as the kernel writes it."""
    return word.replace("-", "_")


def flock_struct(kind: int, start: int, length: int = 1) -> bytes:
    """The kernel's struct flock."""
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, start, length, 0)


def users(module: str) -> int:
    """How many clients hold a module, by the kernel's own table of locks on the live file."""
    try:
        live = paths.LIVE.stat()
    except OSError:
        return 0
    # The table is that of the whole host, where other nodes have files with the same inode number.
    place = f"{os.major(live.st_dev):02x}:{os.minor(live.st_dev):02x}:{live.st_ino}"
    byte, count = BYTES[module], 0
    for line in read(Path("/proc/locks")).splitlines():
        words = line.split()
        if "->" in words or len(words) < 8 or words[3] != "READ" or words[5] != place:
            continue
        end = (1 << 62) if words[7] == "EOF" else int(words[7])
        count += int(words[6]) <= byte <= end
    if count == 0 and not lockable(module):
        count = 1  # held in a way that /proc/locks does not show
    return count


def lockable(module: str) -> bool:
    """Whether no client holds a module."""
    handle = os.open(paths.LIVE, os.O_RDWR)
    try:
        fcntl.fcntl(handle, F_OFD_SETLK, flock_struct(fcntl.F_WRLCK, BYTES[module]))
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(handle)


def dependents(state: State, module: str) -> list[str]:
    """The loaded modules that need this one."""
    return [other for other in state.modules if module in DEPENDS[other]]


def references(state: State, module: str) -> int:
    """The reference count of a loaded module."""
    return users(module) + len(dependents(state, module))
