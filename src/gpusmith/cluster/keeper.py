"""The process that keeps a run's claim while the run goes on, releases it when the run has ended, and ends a run that lost it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from gpusmith.cluster import claims
from gpusmith.cluster.api import Cluster
from gpusmith.cluster.claims import BEAT_S, Claim, Say
from gpusmith.errors import GpusmithError, ToolError
from gpusmith.owner import Process, process

LOOK_S = 0.5
END_S = 5.0
"""How long a process may take to end after a signal."""
GO = b"1"


def start(cluster: Callable[[], Cluster], claim: Claim, say: Say) -> None:
    """Claim nodes, and have a process keep the claim until the claim's leader and the tasks that it started have ended.

    Args:
        cluster: makes connections to the API, of which each process needs its own.
        claim: the run; its keeper is filled in here.
        say: told about waiting.

    Raises:
        Taken: another run works on one of the nodes.
        ToolError: the cluster does not answer or refuses.
    """
    number_reader, number_writer = os.pipe()
    go_reader, go_writer = os.pipe()
    child = os.fork()
    if not child:
        _in_the_background(number_writer, go_reader, cluster, claim)
    for end in (number_writer, go_reader):
        os.close(end)
    try:
        os.waitpid(child, 0)
        number = os.read(number_reader, 32)
        if not number:
            raise ToolError(
                "The process that would keep this run's claim on its nodes could not start.", "Report this."
            )
        mine = replace(claim, keeper=process(int(number)))
        claims.claim(cluster(), mine, say)
        os.write(go_writer, GO)
    finally:
        # If GO was not written, closing the pipe ends the keeper.
        for end in (number_reader, go_writer):
            os.close(end)


def _in_the_background(
    number_writer: int, go_reader: int, cluster: Callable[[], Cluster], claim: Claim
) -> NoReturn:
    """Run the keeper, detached from the session and the open files of its parent."""
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        _leave_files({number_writer, go_reader})
        connected = cluster()
        os.write(number_writer, str(os.getpid()).encode())
        os.close(number_writer)
        if os.read(go_reader, 1) == GO:
            keep(connected, replace(claim, keeper=process()))
    finally:
        # Skip the exit handlers that were copied from the parent.
        os._exit(0)


def _leave_files(kept: set[int]) -> None:
    """Close inherited files, since others may wait for their end. Certificates in memory (memfd) stay open for the client."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 - numbers, not paths
        with suppress(OSError):
            if number < 3:
                os.dup2(nothing, number)
            elif number not in kept and "/memfd:" not in str(Path(f"/proc/self/fd/{number}").readlink()):
                os.close(number)


def _clock() -> float:
    """Seconds since the boot, also those in which the machine was asleep."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def keep(
    cluster: Cluster,
    claim: Claim,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Give signs of life until leader and tasks have ended, then release the claim. End them if the claim is lost.

    While the API does not answer, the run goes on: a run elsewhere could only take the nodes by the same API.
    """
    now = claim
    tasks: set[Process] = set()
    due = _clock() + BEAT_S
    while True:
        if claim.leader.lives:
            tasks = _children(claim.leader.pid)
        elif not any(task.lives for task in tasks):
            with suppress(GpusmithError):
                claims.release(cluster, claim.run)
            return
        if _clock() >= due:
            # A proxy may answer with what is no JSON.
            with suppress(GpusmithError, ValueError):
                beaten = claims.beat(cluster, now)
                if beaten is None:
                    _end_run(claim, {claim.leader, *tasks, *_children(claim.leader.pid)}, sleep)
                    return
                now = beaten
            due = _clock() + BEAT_S
        sleep(LOOK_S)


def _end_run(claim: Claim, run: set[Process], sleep: Callable[[float], None]) -> None:
    """End ansible-playbook and its tasks. What they started on nodes may go on there for a while."""
    error = claims.Lost(f"{claims.lost(*claim.nodes)} This run is ended.", claims.AGAIN)
    _tell(claim.leader, f"gpusmith: {error}")
    # As by Ctrl-C, after which ansible-playbook cleans up. The others are for processes that do not end by it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        for each in run:
            _signal(each, number)
        for _ in range(round(END_S / LOOK_S)):
            if not any(each.lives for each in run):
                return
            sleep(LOOK_S)


def _signal(whom: Process, number: signal.Signals) -> None:
    with suppress(OSError):
        if whom.lives:
            os.kill(whom.pid, number)


def _tell(whom: Process, text: str) -> None:
    """Write to the standard error of another process."""
    with suppress(OSError):
        way = f"/proc/{whom.pid}/fd/2"
        number = os.open(way, os.O_WRONLY | os.O_APPEND | os.O_NOCTTY | os.O_NONBLOCK)
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(f"\n{text}\n")


def _children(pid: int) -> set[Process]:
    """Processes that one has started, without this one: process 1 of a container inherits it."""
    try:
        numbers = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:
        return set()
    return {process(int(number)) for number in numbers if int(number) != os.getpid()}
