"""Programs end with a result, also without a driver."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("program", ["run_cuda.py", "run_pytorch.py", "run_tensorflow.py"])
def test_program_without_a_driver_fails_with_a_result(programs: Path, program: str) -> None:
    done = subprocess.run(
        [sys.executable, str(programs / program)],
        env={"GPUSMITH_SIMULATED": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["ok"] is False
    assert "libcuda.so.1" in result["error"]
