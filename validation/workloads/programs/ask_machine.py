"""Runs a program on the machine itself, by its own Python, below its root that is mounted here; only ever to read.

What it printed is packed, so that it fits into the log of a pod.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import zlib
from pathlib import Path
from typing import Any

import gpu_driver
from gpu_driver import ProgramError

MACHINE = "/host"
PROGRAM = Path(__file__).with_name("probe.zip")
NOT_ASKED = 69
"""Exit status of a machine that has no Python to ask it with: EX_UNAVAILABLE of sysexits.h, which no probe ends with."""
LATE = 124
"""As that of 'timeout'."""
NEW_ENOUGH = "import sys; sys.exit(sys.version_info < (3, 8))"
MOST = 200_000
"""Characters: of a log, 256 KiB are read."""
# Nothing of the image's own; and programs of systemd do not take the pod for a chroot, in which they would do nothing.
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "SYSTEMD_IGNORE_CHROOT": "1",
    # Where NVIDIA's GPU Operator mounts the root of its container with the driver.
    "GPUSMITH_DRIVER_ROOT": "/run/nvidia/driver",
}


def answer(status: int, stdout: bytes = b"", stderr: bytes = b"") -> dict[str, Any]:
    """What is told of a program that ended.

    Raises:
        ProgramError: it printed too much.
    """
    packed = base64.b64encode(zlib.compress(stdout, 9)).decode()
    if len(packed) > MOST:
        raise ProgramError("what the machine told has {} characters, packed".format(len(packed)))
    return {"status": status, "packed": packed, "stderr": stderr.decode(errors="replace")[-4000:]}


def work(words: list[str], timeout_s: float, program: bytes, root: str = MACHINE) -> dict[str, Any]:
    """Run it.

    Args:
        words: of its command; the first is the machine's Python.
        timeout_s: how long it may run.
        program: what it reads from standard input.
        root: of the machine.
    """

    def enter() -> None:
        os.chroot(root)
        os.chdir("/")

    def run(command: list[str], given: bytes) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            command, input=given, capture_output=True, preexec_fn=enter, env=ENVIRONMENT, timeout=timeout_s
        )

    try:
        if run([words[0], "-c", NEW_ENOUGH], b"").returncode:
            return answer(NOT_ASKED, stderr=b"its python3 is older than 3.8, or does not run")
        done = run(words, program)
    except FileNotFoundError:
        return answer(NOT_ASKED, stderr=b"it has no python3")
    except subprocess.TimeoutExpired:
        return answer(LATE)
    return answer(done.returncode, done.stdout, done.stderr)


if __name__ == "__main__":
    given = json.loads(os.environ["GPUSMITH_COMMAND"])
    gpu_driver.run("ask_machine", lambda: work(given["words"], given["timeout_s"], PROGRAM.read_bytes()))
