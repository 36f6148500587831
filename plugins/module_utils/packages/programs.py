"""Running the programs of package managers: nothing is asked, and another one that has the lock is waited for."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Callable, Iterator, Mapping, NamedTuple, Optional, Pattern, Sequence, Tuple

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.base import (
    BusyError,
    PackageError,
    UnfinishedError,
)

LOCK_TICK_S = 2.0
# How long what took too long may go on, once it was asked to end: the script of a package may be compiling the driver's module.
ENDING_TIMEOUT_S = 300.0
PATIENCE = (
    "Another program had the package manager's lock for {:.0f} s. Run again when it has ended, or let runs wait longer:"
    " 'gpusmith_package_lock_timeout_s'."
)
UNFINISHED = (
    "If it was changing packages, some may be half installed. Find what kept it on the node, such as a script that waits, or a compiler"
    " that still runs, then run again: that finishes them first."
)


class Manner(NamedTuple):
    """How the programs of one package manager are run, and what they say.

    Attributes:
        environment: besides the process's own.
        locked: found in the errors of one that could not get a lock.
        cause: the lines of output and errors that say what is wrong.
        end: what asks one to end, and does not interrupt it while it changes packages.
    """

    environment: Mapping[str, str]
    locked: Pattern[str]
    cause: Callable[[str, str], str]
    end: signal.Signals = signal.SIGTERM


def run(
    manner: Manner,
    words: Sequence[str],
    timeout_s: float,
    accept: Sequence[int] = (0,),
    lock_timeout_s: float = 0.0,
    cwd: Optional[Path] = None,
    unless: str = "",
    environment: Optional[Mapping[str, str]] = None,
) -> str:
    """Standard output of a program.

    Args:
        manner: of its package manager.
        words: program and arguments.
        timeout_s: when to give up.
        accept: exit statuses that are no failure, unless another program has the lock.
        lock_timeout_s: how long to try again while another program has the lock.
        cwd: folder to run in.
        unless: found in its errors, no status is a failure.
        environment: of this program alone.

    Raises:
        BusyError: another program had the lock all the time.
        UnfinishedError: it did not end in time.
        PackageError: it failed; with the lines that name the error.
    """
    deadline = time.monotonic() + lock_timeout_s
    while True:
        try:
            done = _done(manner, words, timeout_s, cwd, environment or {})
        except OSError as error:
            raise PackageError(f"'{words[0]}' cannot be run: {error}") from error
        locked = done.returncode != 0 and manner.locked.search(done.stderr)
        if (done.returncode in accept and not locked) or (unless and unless in done.stderr):
            return done.stdout
        told = f"'{' '.join(words[:2])}' failed: {manner.cause(done.stdout, done.stderr)}"
        if not locked:
            raise PackageError(told)
        if time.monotonic() >= deadline:
            raise BusyError(f"{told.rstrip('.?')}. {PATIENCE.format(lock_timeout_s)}")
        time.sleep(LOCK_TICK_S)


def _done(
    manner: Manner,
    words: Sequence[str],
    timeout_s: float,
    cwd: Optional[Path],
    environment: Mapping[str, str],
) -> "subprocess.CompletedProcess[str]":
    """A program that has ended; one that takes too long is asked to, and killed where that is in vain."""
    with _heeded(manner.end):
        begun = subprocess.Popen(
            list(words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={**os.environ, "LC_ALL": "C", **manner.environment, **environment},
            cwd=cwd,
        )
    with begun as process:
        try:
            out, err = process.communicate(timeout=timeout_s)
            return subprocess.CompletedProcess(words, process.returncode, out, err)
        except subprocess.TimeoutExpired as error:
            process.send_signal(manner.end)
            how, said = _ended(process)
            last = f" It said last: '{said}'." if said else ""
            raise UnfinishedError(
                f"'{' '.join(words[:2])}' did not end within {timeout_s:.0f} s, and {how}.{last} {UNFINISHED}"
            ) from error


@contextmanager
def _heeded(end: signal.Signals) -> Iterator[None]:
    """Programs that are begun meanwhile do not inherit that the signal is ignored, as it is where a shell began this in the background."""
    ignored = (
        signal.getsignal(end) is signal.SIG_IGN and threading.current_thread() is threading.main_thread()
    )
    if ignored:
        signal.signal(end, signal.SIG_DFL)
    try:
        yield
    finally:
        if ignored:
            signal.signal(end, signal.SIG_IGN)


def _ended(process: "subprocess.Popen[str]") -> Tuple[str, str]:
    """How a program ended that was asked to, and the last line that it said. Whatever it says of that, it did not come to its end."""
    said: str | bytes
    try:
        said, _ = process.communicate(timeout=ENDING_TIMEOUT_S)
        how = "was asked to"
    except subprocess.TimeoutExpired as error:
        process.kill()
        # Not for its output, which others may keep open that it has started.
        process.wait()
        said = error.output or ""
        how = f"was killed, since it did not end for {ENDING_TIMEOUT_S:.0f} s after it was asked to"
    text = said.decode(errors="replace") if isinstance(said, bytes) else said
    return how, next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
