"""What MPS leaves on a machine is taken away, and what it has is left alone."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from simgpu.state import State

from tests.integration.partition.conftest import Divided

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may change settings")
SET = "compute mode of GPU is set to DEFAULT"


@pytest.fixture
def left(divided: Divided) -> Path:
    """A control daemon was killed: modes, sockets' folder and a mount in it."""
    state = State.load()
    for gpu in state.gpus:
        gpu["compute_mode"] = "3"
    state.save()
    folder: Path = divided.node.root / "mps"
    (folder / "shm").mkdir(parents=True)
    (folder / "nvidia.com" / "gpu.shared" / "pipe").mkdir(parents=True)
    (folder / ".ready").touch()
    return folder


def modes() -> list[str]:
    return [row["compute_mode"] for row in State.load().gpus]


def test_what_a_killed_daemon_leaves_goes_with_its_layout(divided: Divided, left: Path) -> None:
    planned = [SET, SET, f"what MPS left in '{left}' is removed"]
    assert divided.says("--mps") == [], "its layout keeps it"
    assert divided.says("--check") == planned
    assert modes() == ["3", "3"]
    memory = left / "shm"
    mounted = subprocess.run(["mount", "-t", "tmpfs", "shm", str(memory)], check=False).returncode == 0
    try:
        assert divided.says() == planned
    finally:
        if mounted and os.path.ismount(memory):
            subprocess.run(["umount", str(memory)], check=True)
    assert (modes(), left.exists()) == (["0", "0"], False)
    assert divided.says() == []


def test_a_mode_of_the_sites_own_stays(divided: Divided, left: Path) -> None:
    shutil.rmtree(left)
    assert divided.says() == []
    assert modes() == ["3", "3"]


def test_a_daemon_that_still_ends_is_waited_for(divided: Divided, left: Path) -> None:
    code = "run.mps.gather = lambda: run.mps.Mps((4711,), True)\n"
    status, result = divided.python(f"{code}sys.exit(run.main(['--file', {str(divided.file)!r}]))")
    assert (status, result["in_use"], modes()) == (1, True, ["3", "3"])
    assert "runs still, as process 4711" in result["error"]


def test_gpus_that_are_divided_are_free_for_all(divided: Divided, left: Path) -> None:
    divided.write("3g.40gb")
    assert divided.says()[:2] == [SET, SET]
    assert modes() == ["0", "0"]
