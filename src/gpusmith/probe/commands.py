"""Programs that run beside each other."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import os
import select
import shutil
import subprocess
from typing import Sequence

COMMAND_TIMEOUT_S = 10.0


def find_program(name: str) -> str | None:
    """Path of a program, also of one that only root's PATH has."""
    path = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return shutil.which(name, path=path)


class Command:
    """A program that runs beside the others; asked for its output later."""

    def __init__(self, *words: str) -> None:
        self.name = " ".join(words[:2])
        self.process: subprocess.Popen[str] | None = None
        self.missing = True
        self.late = False
        program = find_program(words[0])
        if program is None:
            return
        environment = dict(os.environ, LC_ALL="C", TZ="UTC")
        try:
            self.process = subprocess.Popen(
                [program, *words[1:]],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                env=environment, universal_newlines=True, errors="replace",
            )  # fmt: skip
            self.missing = False
        except OSError:
            return

    def output(
        self,
        errors: list[str],
        accept: Sequence[int] | None = (0,),
        timeout_s: float = COMMAND_TIMEOUT_S,
    ) -> str | None:
        """Standard output; None if the program is missing, failed or did not end in time."""
        if self.process is None:
            return None
        try:
            text, _unused = self.process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.late = True
            errors.append(f"'{self.name}' did not end within {timeout_s:.0f} s")
            return None
        except (OSError, ValueError) as error:
            errors.append(f"'{self.name}' could not be read: {error}")
            return None
        if accept is not None and self.process.returncode not in accept:
            errors.append(f"'{self.name}' ended with status {self.process.returncode}")
            return None
        return text

    def first_line(self) -> str:
        """The first line of standard output, without waiting for the rest; empty if there is none in time."""
        if self.process is None or self.process.stdout is None:
            return ""
        line = ""
        try:
            ready, _unused, _none = select.select([self.process.stdout], [], [], COMMAND_TIMEOUT_S)
            line = self.process.stdout.readline() if ready else ""
            self.process.stdout.close()
            self.process.kill()
            self.process.wait(timeout=COMMAND_TIMEOUT_S)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            pass
        return line.rstrip("\n")
