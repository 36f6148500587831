"""The first command of the README as a stranger runs it: a fresh clone, and nothing in the cache."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from tests.e2e.harness import Lab

DEMO_TIMEOUT_S = 3600.0
DOWN_TIMEOUT_S = 600.0
TESTED = "8 of 8 GPUs"


def test_cold_demo(no_lab: Lab, tmp_path: Path, measured: Callable[[str, object], None]) -> None:
    clone, cache = tmp_path / "gpusmith", tmp_path / "cache"
    no_lab.ok("git", "clone", "--quiet", str(no_lab.root), str(clone))
    empty = [f"XDG_CACHE_HOME={cache}", f"GOCACHE={cache / 'go-build'}", f"GOMODCACHE={cache / 'go-modules'}"]
    try:
        cold = no_lab.ok("env", *empty, "CI=true", "make", "demo", cwd=clone, timeout=DEMO_TIMEOUT_S)
        assert TESTED in cold.output, str(cold)
        no_lab.ok("env", *empty, "make", "lab-down", cwd=clone, timeout=DOWN_TIMEOUT_S)
        warm = no_lab.ok("env", *empty, "make", "demo", cwd=clone, timeout=DEMO_TIMEOUT_S)
        measured("demo", f"cold {cold.seconds:.0f} s, warm {warm.seconds:.0f} s")
    finally:
        no_lab.run("env", *empty, "make", "lab-down", cwd=clone, timeout=DOWN_TIMEOUT_S)
        # Go keeps its modules read-only.
        no_lab.run("chmod", "-R", "u+w", str(cache), timeout=DOWN_TIMEOUT_S)
        shutil.rmtree(tmp_path, ignore_errors=True)
