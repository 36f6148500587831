"""Two runs never work on one node, and a dead one is in nobody's way."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from gpusmith import owner, wait
from gpusmith.cluster import claims
from gpusmith.cluster import keeper as keeper_module
from gpusmith.owner import Process
from tests.unit.cluster.test_claims import ELSEWHERE, run

# --- the process that keeps it ---------------------------------------------------------------------------------

LEADER = """
import fcntl, json, os, pathlib, subprocess, sys, time
from gpusmith.cluster import claims, keeper
from gpusmith.cluster.api import ApiRefused
from gpusmith.owner import process

book = pathlib.Path(sys.argv[1])

secret = os.memfd_create("key")
os.write(secret, b"key")

class Api:
    def __init__(self):
        # As the client reads its certificates.
        assert open(f"/proc/self/fd/{secret}").read() == "key"
    def get(self, path):
        text = book.read_text() if book.exists() else ""
        return {"metadata": {"resourceVersion": text}, "data": json.loads(text)} if text else None
    def create(self, path, body):
        # At once for those who read it.
        new = book.with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps(body["data"]))
        new.replace(book)
    def patch(self, path, body, manager):
        with book.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            text = book.read_text()
            if body.get("metadata", {}).get("resourceVersion", text) != text:
                raise ApiRefused("Conflict", "", 409)
            rows = {**json.loads(text), **body["data"]}
            self.create(path, {"data": {name: text for name, text in rows.items() if text is not None}})

keeper.BEAT_S = 0.2
claim = claims.Claim("a", "site.yml", "root", "now", process(), process(), {"gpu-1": "m1"})
keeper.start(Api, claim, print)
task = subprocess.Popen(["sleep", sys.argv[2]], stdout=subprocess.DEVNULL)
print(claims.read(json.loads(book.read_text())["a"]).keeper.pid, task.pid, flush=True)
sys.stdin.read()
task.kill()
task.wait()
"""


def leader(book: Path, task_s: str) -> tuple[subprocess.Popen[str], int, int]:
    """A run that has claimed a node and works on a task; its keeper and its task."""
    words = [sys.executable, "-c", LEADER, str(book), task_s]
    pipe = subprocess.PIPE
    process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert process.stdout is not None
    keeper, task = process.stdout.readline().split()
    return process, int(keeper), int(task)


def seen(book: Path) -> None:
    """Wait until the keeper has looked for tasks once more: it does so before each beat."""

    def beat() -> int:
        claim = claims.read(json.loads(book.read_text())["a"])
        assert claim is not None
        return claim.beat

    first = beat()

    def look() -> wait.Done[None] | wait.NotYet:
        beats = beat() - first
        # The first beat may belong to an earlier look.
        return wait.Done(None) if beats >= 2 else wait.NotYet(f"{beats} beats")

    wait.wait_until("the keeper to look for tasks", look, wait.Deadline(20), 0.05)


def rewrite(book: Path, text: str) -> None:
    """Write the claims as another run does: never between another's look and its change."""
    with book.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        new = book.with_suffix(".new")
        new.write_text(text)
        new.replace(book)


def ended(*processes: Process) -> None:
    def look() -> wait.Done[None] | wait.NotYet:
        living = [each.pid for each in processes if each.lives]
        return wait.NotYet(str(living)) if living else wait.Done(None)

    wait.wait_until("processes to end", look, wait.Deadline(20), 0.05)


def gone(book: Path) -> None:
    def look() -> wait.Done[None] | wait.NotYet:
        return wait.NotYet(book.read_text()) if json.loads(book.read_text()) else wait.Done(None)

    wait.wait_until("the claim to be given back", look, wait.Deadline(20), 0.05)


def test_a_run_that_ends_gives_its_nodes_back(tmp_path: Path) -> None:
    book = tmp_path / "book"
    process, keeper, _ = leader(book, "60")
    assert owner.process(keeper).lives
    # Who waits for the end of its output does not wait for the keeper.
    process.communicate(timeout=10)
    gone(book)


def test_a_run_that_is_killed_gives_them_back_when_its_task_has_ended(tmp_path: Path) -> None:
    book = tmp_path / "book"
    process, _, task = leader(book, "60")
    seen(book)
    process.kill()
    process.wait()
    time.sleep(2 * keeper_module.LOOK_S)
    assert json.loads(book.read_text()), "the task still runs"
    os.kill(task, signal.SIGKILL)
    gone(book)


def test_nodes_of_a_run_whose_keeper_was_killed_too_are_free(tmp_path: Path) -> None:
    book = tmp_path / "book"
    process, keeper, _ = leader(book, "0")
    kept = claims.read(json.loads(book.read_text())["a"])
    assert kept is not None
    assert kept.lives is True
    os.kill(keeper, signal.SIGKILL)
    process.kill()
    process.wait()
    ended(kept.leader, kept.keeper)
    assert kept.lives is False


# --- a run that lost its claim -----------------------------------------------------------------------------------


def test_a_run_whose_claim_was_taken_while_it_was_silent_is_ended(tmp_path: Path) -> None:
    book = tmp_path / "book"
    process, keeper, task = leader(book, "60")
    members = [owner.process(pid) for pid in (process.pid, keeper, task)]
    # As a machine that sleeps.
    os.kill(keeper, signal.SIGSTOP)
    rewrite(book, json.dumps({"b": claims.written(run("b", ELSEWHERE))}))
    time.sleep(2 * keeper_module.LOOK_S)
    assert process.poll() is None
    os.kill(keeper, signal.SIGCONT)
    assert process.wait(timeout=20) != 0
    said = process.communicate()[1]
    assert "This run has no claim on node 'gpu-1' any more" in said
    assert "ConfigMap 'kube-system/gpusmith-runs'" in said
    ended(*members)
    assert set(json.loads(book.read_text())) == {"b"}


def test_tasks_of_a_killed_run_that_lost_its_claim_are_ended(tmp_path: Path) -> None:
    book = tmp_path / "book"
    process, _, task = leader(book, "60")
    sleeps = owner.process(task)
    seen(book)
    process.kill()
    process.wait()
    rewrite(book, "{}")
    ended(sleeps)
