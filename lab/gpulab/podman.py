"""The one way the lab talks to podman."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from gpulab.processes import process_start
from gpusmith.errors import ToolError

LABEL = "io.gpusmith.lab=default"
MISSING = "missing"
KILLED = "killed"
# Podman 4.3 needs three tries: the first two only correct what it believes of the container, one of them after 5 s.
REMOVE_TRIES = 4


@dataclass(frozen=True)
class Podman:
    """Runs podman, writes every command that changes something to a log.

    Attributes:
        log: file for commands and errors.
        runtime: OCI runtime; crun refuses the hybrid tree of cgroup v1 hosts.
    """

    log: Path
    runtime: str = "runc"

    def command(self, *arguments: str) -> list[str]:
        """The words that `run` executes."""
        return ["podman", "--runtime", self.runtime, *arguments]

    def run(
        self,
        *arguments: str,
        check: bool = True,
        stdin: bytes | None = None,
        timeout: float | None = None,
        quiet: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run one podman command.

        Args:
            arguments: everything after `podman --runtime NAME`.
            check: raise for a status other than 0.
            stdin: bytes for its standard input; nothing otherwise.
            timeout: seconds; a command that takes longer is an error of the tool.
            quiet: do not log the command (for questions that are asked in loops).

        Raises:
            ToolError: podman is missing, failed, or took too long.
        """
        words = self.command(*arguments)
        begin = time.monotonic()
        try:
            done = subprocess.run(
                words, input=stdin or b"", capture_output=True, check=False, timeout=timeout
            )
        except FileNotFoundError as error:
            raise ToolError("Program 'podman' is not installed.", "Run 'make setup'.") from error
        except subprocess.TimeoutExpired as error:
            raise ToolError(
                f"'{shlex.join(words)}' took longer than {timeout:.0f} s.", f"See '{self.log}'."
            ) from error
        result = subprocess.CompletedProcess(
            words, done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        )
        if not quiet or result.returncode != 0:
            self._record(result, time.monotonic() - begin)
        if check and result.returncode != 0:
            reason = (result.stderr.strip().splitlines() or ["no message"])[-1]
            raise ToolError(
                f"'podman {' '.join(arguments[:2])}' ended with status {result.returncode}: {reason}",
                f"The whole command is in '{self.log}'.",
            )
        return result

    def json(self, *arguments: str) -> Any:
        """Run a podman command that prints JSON; an empty answer is an empty list."""
        text = self.run(*arguments, quiet=True).stdout.strip()
        return json.loads(text) if text else []

    def exec(
        self,
        container: str,
        argv: Sequence[str],
        *,
        check: bool = True,
        timeout: float | None = 60,
        quiet: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program in a container, without a terminal."""
        return self.run("exec", container, *argv, check=check, timeout=timeout, quiet=quiet)

    def inspect(self, container: str) -> dict[str, Any] | None:
        """What podman knows of a container; None if there is none.

        Podman learns of a container's end from its monitor. One that was killed with its monitor is 'running' for
        podman for ever and cannot be started again, only removed; its `State.Status` is given as `KILLED`.
        """
        done = self.run("container", "inspect", container, check=False, quiet=True)
        if done.returncode != 0:
            return None
        found = cast("dict[str, Any]", json.loads(done.stdout)[0])
        state = found["State"]
        if state["Status"] in ("running", "stopping") and not process_start(int(state["Pid"])):
            state["Status"] = KILLED
        return found

    def running(self) -> set[str]:
        """Names of the lab's containers whose first process lives, in one question."""
        rows = self.json("ps", "--format", "json", "--filter", f"label={LABEL}")
        return {str(row["Names"][0]) for row in rows if process_start(int(row["Pid"]))}

    def remove(self, *containers: str) -> None:
        """Remove containers with their volumes, also those that were killed with their monitors.

        Raises:
            ToolError: one is still there after some tries; carries podman's reason.
        """
        words = ("rm", "--force", "--volumes", "--time", "0", "--ignore", *containers)
        for _ in range(REMOVE_TRIES - 1):
            if self.run(*words, check=False).returncode == 0:
                return
        self.run(*words)

    def new_volume(self, name: str) -> None:
        """Make an empty volume.

        A removal that was killed leaves files under the volume's name, and podman fills only an empty volume from the
        image: the machine would boot with those files as its /var.
        """
        self.run("volume", "create", "--label", LABEL, name)
        folder = Path(
            self.run("volume", "inspect", "--format", "{{.Mountpoint}}", name, quiet=True).stdout.strip()
        )
        for leftover in folder.iterdir():
            if leftover.is_dir() and not leftover.is_symlink():
                shutil.rmtree(leftover)
            else:
                leftover.unlink()

    def owned(self, kind: str) -> list[str]:
        """Names of containers, volumes or networks that carry the lab's label."""
        where = ["--filter", f"label={LABEL}"]
        if kind == "container":
            words = ["ps", "--all", *where, "--format", "{{.Names}}"]
        elif kind == "volume":
            words = ["volume", "ls", *where, "--format", "{{.Name}}"]
        else:
            words = ["network", "ls", *where, "--format", "{{.Name}}"]
        return self.run(*words, quiet=True).stdout.split()

    def _record(self, done: subprocess.CompletedProcess[str], seconds: float) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("a") as out:
            out.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} $ {shlex.join(done.args)}\n")
            out.write(f"    status {done.returncode}, {seconds:.2f} s\n")
            if done.returncode != 0:
                out.write(f"    {done.stderr.strip()}\n")
