"""Long work shows what it does, how far it is and how long it took."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from gpusmith.errors import ToolError

TAIL_LINES = 15
TELL_S = 15.0


def say(text: str) -> None:
    """Print one line of progress on standard error, so that standard output stays data."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def step(text: str) -> Iterator[None]:
    """Announce a step, and its duration once it ended."""
    say(f"==> {text}")
    begin = time.monotonic()
    try:
        yield
    except BaseException:
        say(f"    {text}: failed after {time.monotonic() - begin:.1f} s")
        raise
    say(f"    {text}: {time.monotonic() - begin:.1f} s")


def run_logged(
    command: Sequence[str | Path],
    log: Path,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    hint: str = "",
    tell: Callable[[str], str] | None = None,
) -> None:
    """Run a command with its whole output appended to a log file.

    Args:
        command: program and arguments.
        log: file for standard output and error; its folder is made.
        cwd: working directory.
        env: variables on top of the current environment.
        hint: what to do if it fails.
        tell: makes one line of progress from the output so far; it is asked every now and then.

    Raises:
        ToolError: exit status other than 0, or the program is missing; names the log and shows its end.
    """
    words = [str(word) for word in command]
    if shutil.which(words[0]) is None:
        raise ToolError(f"Program '{words[0]}' is not installed.", hint or "Run 'make setup'.")
    # A build must not outlive a killed command: nobody would end it, and the next one would build beside it.
    guard = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as out:
        out.write(f"$ {shlex.join(words)}\n")
        out.flush()
        begin = out.tell()
        with subprocess.Popen(
            [*guard, *words],
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        ) as process:
            try:
                _wait(process, lambda: say(f"    {tell(_since(log, begin))}") if tell else None)
            except BaseException:
                process.kill()
                raise
    if process.returncode != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-TAIL_LINES:])
        raise ToolError(
            f"'{shlex.join(words)}' ended with status {process.returncode}; its log is '{log}', which ends with:\n{tail}\n",
            hint,
        )


def _wait(process: subprocess.Popen[bytes], every: Callable[[], object]) -> None:
    while True:
        try:
            process.wait(timeout=TELL_S)
        except subprocess.TimeoutExpired:
            every()
        else:
            return


def _since(log: Path, begin: int) -> str:
    with log.open("rb") as file:
        file.seek(begin)
        return file.read().decode(errors="replace")
