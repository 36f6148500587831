from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from gpulab.state import (
    Places,
    end_orphan,
    remember_child,
)


def test_an_orphan_is_ended_with_its_children(places: Places) -> None:
    script = (
        "import subprocess, time; subprocess.Popen(['sleep', '60']); print('x', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", script], start_new_session=True, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    remember_child(places, child.pid)
    assert end_orphan(places)
    child.wait(timeout=10)
    end = time.monotonic() + 5
    while time.monotonic() < end:
        try:
            os.killpg(child.pid, 0)
        except ProcessLookupError:
            break
        time.sleep(0.05)
    else:
        pytest.fail("the orphan's child lives")
    assert not end_orphan(places)
