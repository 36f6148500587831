"""Reading and writing small files, and the lock of the simulated kernel."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from simgpu import paths


def read(path: Path, default: str = "") -> str:
    """The text of a file, or the default where there is none."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return default


def write(path: Path, text: str) -> None:
    """Write in place: the inode stays, since it may be bind mounted or held open."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as out:
        out.write(text)


def link(path: Path, target: str) -> None:
    """Make a symbolic link unless it is there."""
    if not path.is_symlink():
        path.symlink_to(target)


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """One operation of the simulated kernel at a time."""
    paths.RUN.mkdir(parents=True, exist_ok=True)
    with (paths.RUN / "lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
