"""No command left a key behind; `gpulab down` leaves nothing of the lab, and can be called again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.harness import Lab

LABEL = "label=io.gpusmith.lab=default"


def test_no_command_left_a_private_key(lab: Lab) -> None:
    # As Python names them. Files named by digits alone are of the lab: Go programs, such as podman, name theirs so.
    files = [path for path in Path(lab.environment["TMPDIR"]).rglob("tmp*") if path.is_file()]
    assert [str(path) for path in files if b"PRIVATE KEY" in path.read_bytes()] == []


def test_down_twice(bare_lab: Lab, keep_lab: bool) -> None:
    if keep_lab:
        pytest.skip("E2E_KEEP_LAB: the lab stays up")
    bare_lab.kill_machine("gpu-1")
    bare_lab.gpulab("down")
    bare_lab.gpulab("down")
    ended = bare_lab.run(bare_lab.program("gpulab"), "status", "--json")
    assert ended.status == 1
    assert json.loads(ended.output)["nodes"] == []
    for kind in (["ps", "--all"], ["network", "ls"], ["volume", "ls"]):
        found = bare_lab.ok("podman", *kind, "--quiet", "--filter", LABEL).output.strip()
        assert found == "", f"podman {kind[0]} still lists {found}"
    assert not bare_lab.inventory.exists()
    mounts = bare_lab.ok("cat", "/proc/self/mountinfo").output
    assert "gpusmith/lab" not in mounts
