"""Running the programs of package managers: nothing is asked, and another one that has the lock is waited for.

Standard library only, Python 3.8 or newer: it runs on the node.
"""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Callable, Mapping, NamedTuple, Optional, Pattern, Sequence

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.base import BusyError, PackageError

LOCK_TICK_S = 2.0
PATIENCE = (
    "Another program had the package manager's lock for {:.0f} s. Run again when it has ended, or let runs wait longer:"
    " 'gpusmith_package_lock_timeout_s'."
)


class Manner(NamedTuple):
    """How the programs of one package manager are run, and what they say.

    Attributes:
        environment: besides the process's own.
        locked: found in the errors of one that could not get a lock.
        cause: the lines of output and errors that say what is wrong.
    """

    environment: Mapping[str, str]
    locked: Pattern[str]
    cause: Callable[[str, str], str]


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
        PackageError: it failed or did not end in time; with the lines that name the error.
    """
    deadline = time.monotonic() + lock_timeout_s
    while True:
        try:
            done = subprocess.run(
                list(words),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                env={**os.environ, "LC_ALL": "C", **manner.environment, **(environment or {})},
                timeout=timeout_s,
                cwd=cwd,
            )
        except subprocess.TimeoutExpired as error:
            raise PackageError(f"'{' '.join(words[:2])}' did not end within {timeout_s:.0f} s.") from error
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
