"""The Pythons that nodes may have, as far as this machine has them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

OLDEST, NEWEST = 8, 14


def _candidates() -> Iterator[str]:
    for minor in range(OLDEST, NEWEST + 1):
        name = f"python3.{minor}"
        found = shutil.which(name) or ""
        # A version manager's stand-in starts some of its versions only; those stand beside it.
        places = sorted((Path(found).parent.parent / "versions").glob(f"3.{minor}.*/bin/{name}"))
        yield str(places[-1]) if places else found
    yield shutil.which("python3") or ""


def _works(program: str) -> bool:
    return subprocess.run([program, "-c", "import ctypes"], capture_output=True, check=False).returncode == 0


PYTHONS = [program for program in _candidates() if program and _works(program)]
