"""Which process something is of, and whether it lives."""

from __future__ import annotations

import os
import subprocess

from gpusmith import owner


def test_one_that_has_ended_is_dead_before_and_after_somebody_asked() -> None:
    child = subprocess.Popen(["sleep", "60"])
    there = owner.process(child.pid)
    assert there.start
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not there.lives
    child.wait()
    assert not there.lives
