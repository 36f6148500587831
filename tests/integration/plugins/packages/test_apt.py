"""The backend for apt without apt: files, what apt's programs print, and which programs are run."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import (
    apt,
    base,
    programs,
)


def script(folder: Path, text: str) -> str:
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_a_lock_is_waited_for_and_then_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "LOCK_TICK_S", 0.01)
    monkeypatch.setattr(programs, "ENDING_TIMEOUT_S", 0.5)
    told = "echo 'E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7' >&2; exit 100"
    busy = script(
        tmp_path,
        f"echo x >> {tmp_path}/tries; [ $(wc -l < {tmp_path}/tries) -ge 3 ] && echo done && exit 0; {told}",
    )
    assert apt.run([busy], 10, lock_timeout_s=30) == "done\n"
    with pytest.raises(base.BusyError, match="held by process 7"):
        apt.run([script(tmp_path, told)], 10, lock_timeout_s=0.05)
    # apt that waits names the other program while it does.
    waits = "echo 'Waiting for cache lock: Could not get lock /a. It is held by process 7 (unattended-upgr)'"
    ends = (
        "echo 'E: Unable to acquire the dpkg frontend lock (/a), is another process using it?' >&2; exit 100"
    )
    with pytest.raises(base.BusyError, match=r"held by process 7 \(unattended-upgr\)\. Another"):
        apt.run([script(tmp_path, f"{waits}; {waits}; {ends}")], 10)
    # What is accepted besides is what a program does, not that it could do nothing.
    locked = "echo 'dpkg: error: dpkg frontend lock was locked by another process with pid 7' >&2; exit 2"
    with pytest.raises(base.BusyError, match=r"with pid 7.* 'gpusmith_package_lock_timeout_s'"):
        apt.run([script(tmp_path, locked)], 10, accept=range(256))
    with pytest.raises(base.PackageError, match="did not end within"):
        apt.run([script(tmp_path, "exec sleep 5")], 0.1)
