"""A function in a process of its own."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import os
import pickle
import select
import signal
import time
from typing import Callable, Generic, TypeVar

T = TypeVar("T")


def _attempt(work: Callable[[], T]) -> tuple[T | None, str | None]:
    try:
        return work(), None
    except Exception as error:  # noqa: BLE001 - a probe that dies tells less than one that has a hole
        return None, f"{type(error).__name__}: {error}"


def within(root: str, work: Callable[[], T]) -> T:
    """A function below another root; for a child, which never comes back from there."""
    os.chroot(root)
    os.chdir("/")
    return work()


class Child(Generic[T]):
    """A function in a forked child, so that a library that hangs or crashes harms only the child."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._reader, writer = os.pipe()
        self._process = os.fork()
        if self._process == 0:
            status = 1
            try:
                os.close(self._reader)
                silent = os.open(os.devnull, os.O_RDWR)
                for stream in (0, 1, 2):
                    os.dup2(silent, stream)
                data = pickle.dumps(_attempt(work))
                while data:
                    data = data[os.write(writer, data) :]
                status = 0
            finally:
                os._exit(status)
        os.close(writer)

    def result(self, timeout_s: float) -> tuple[T | None, str | None]:
        """The function's answer, or why there is none."""
        end = time.monotonic() + timeout_s
        data = b""
        problem = None
        while True:
            ready, _unused, _none = select.select([self._reader], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                problem = f"no answer within {timeout_s:.0f} s"
                break
            chunk = os.read(self._reader, 65536)
            if not chunk:
                break
            data += chunk
        os.close(self._reader)
        if problem is not None:
            # Not waited for: a process inside a hanging driver call cannot be killed.
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, os.WNOHANG)
            return None, problem
        _pid, status = os.waitpid(self._process, 0)
        if status != 0:
            how = (
                f"was killed by signal {status & 0x7F}"
                if status & 0x7F
                else f"ended with status {status >> 8}"
            )
            return None, f"the process that called the library {how}"
        try:
            answer: tuple[T | None, str | None] = pickle.loads(data)  # noqa: S301 - this very program wrote it
        except Exception as error:  # noqa: BLE001 - what the library did to it, nobody knows
            return None, f"the process that called the library told nothing that can be read: {error}"
        return answer
