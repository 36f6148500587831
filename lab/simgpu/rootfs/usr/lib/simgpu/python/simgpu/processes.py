"""Other programs of the node."""

from __future__ import annotations

import errno
import subprocess

from simgpu.errors import RefusedError


def call(*words: str, check: bool = True) -> int:
    """Run a program to its end; a failure is refused with its output if ``check`` says so."""
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if check and done.returncode:
        raise RefusedError(errno.EIO, f"'{' '.join(words)}' failed: {done.stdout.strip()}")
    return done.returncode


def output(*words: str) -> str:
    """What a program prints, whatever its exit status."""
    return subprocess.run(words, capture_output=True, text=True).stdout
