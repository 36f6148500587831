"""Local programs that talk to nodes, each with a deadline, and all ended with the run."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from contextlib import suppress
from typing import Any


class Stalled(Exception):  # noqa: N818 - it does not leave gpusmith.node
    """A program did not end in time; it was ended."""


_running: set[subprocess.Popen[bytes]] = set()
_lock = threading.Lock()


def run_local(backend: Any, deadline_s: float, command: str, *args: str) -> Any:
    """Testinfra's `run_local` with a deadline: ssh waits without limit for a stalled sshd.

    Args:
        backend: testinfra's.
        deadline_s: seconds.
        command: as testinfra has it.
        args: the same.

    Raises:
        Stalled: the deadline passed.
    """
    words = backend.encode(backend.quote(command, *args))
    # In a session of its own, so that what ssh started (a proxy, sshpass) ends with it.
    with subprocess.Popen(
        ["/bin/sh", "-c", words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        with _lock:
            _running.add(process)
        try:
            out, err = process.communicate(timeout=deadline_s)
        except subprocess.TimeoutExpired as error:
            raise Stalled from error
        finally:
            with _lock:
                _running.discard(process)
            _end(process)
    return backend.result(process.returncode, words, out, err)


def _end(process: subprocess.Popen[bytes]) -> None:
    """The program and all that it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def end_all() -> None:
    """End what runs now, so that nobody waits for it any longer."""
    with _lock:
        running = tuple(_running)
    for process in running:
        _end(process)
