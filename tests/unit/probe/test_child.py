from __future__ import annotations

import os
import signal
import time
from typing import Any

from gpusmith.probe import child


def _hang() -> dict[str, Any]:
    time.sleep(60)
    return {}


def _die() -> dict[str, Any]:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def test_a_library_that_hangs_crashes_or_answers() -> None:
    assert child.Child(_hang).result(0.2) == (None, "no answer within 0 s")
    answer, problem = child.Child(_die).result(10)
    assert answer is None
    assert problem is not None
    assert "signal 9" in problem
    assert child.Child(lambda: {"x": "y" * 200000}).result(10)[0] == {"x": "y" * 200000}
    assert child.Child(lambda: {"x": 1 // 0}).result(10) == (
        None,
        "ZeroDivisionError: integer division or modulo by zero",
    )
