"""The program simgpu, and how the programs of a node start."""

from __future__ import annotations

import subprocess
import sys

from tests.unit.simgpu.test_cli import NODE


def test_a_node_needs_the_standard_library_alone() -> None:
    folder = NODE / "python"
    names = [str(path.relative_to(folder).with_suffix("")).replace("/", ".") for path in folder.rglob("*.py")]
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); import {', '.join(names)}"
    # As the launcher has it: without the environment's packages.
    subprocess.run([sys.executable, "-ISBc", code], check=True)
    started = [sys.executable, "-ISB", str(NODE / "simgpu"), "fault", "--help"]
    assert "gpu-lost" in subprocess.run(started, capture_output=True, text=True, check=True).stdout
