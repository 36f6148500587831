"""The node's own word of its layout, and the program that goes by it (`gpusmith.partition`)."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Callable, Dict, Sequence, Tuple

SCHEMA = "gpusmith.gpu-layout/1"
FILE = Path("/etc/gpusmith/gpu-layout.json")
PROGRAM = Path("/usr/local/lib/gpusmith/gpu-layout.pyz")

Run = Callable[[Sequence[str]], Tuple[int, str, str]]


def call(run: Run, program: Path, *words: str) -> Tuple[Dict[str, Any], str]:
    """Run the program.

    Args:
        run: runs a command; status, output and error.
        program: where it is.
        words: its options.

    Returns:
        Its result, with changed, done and, of a failure, in_use in any case, and why it failed; empty if it did not.
    """
    status, output, error = run([sys.executable, str(program), *words])
    try:
        result: Dict[str, Any] = json.loads(output.splitlines()[-1])
    except (IndexError, ValueError):
        said = " ".join((error or output).split()) or "nothing"
        return {"changed": False, "done": [], "in_use": False}, "'{}' ended with {}. It said: {}".format(
            program, status, said
        )
    return result, "{} {}".format(result["error"], result["hint"]) if "error" in result else ""
