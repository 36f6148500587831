"""Two runs never work on one node, and a dead one is in nobody's way."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpusmith import owner, wait
from gpusmith.cluster import claims
from gpusmith.cluster import keeper as keeper_module
from gpusmith.cluster.api import Cluster
from gpusmith.cluster.claims import PATH, Claim, Lost, Taken
from gpusmith.errors import ToolError
from gpusmith.owner import Process, process
from tests.unit.cluster.conftest import Memory, Time

DEAD = Process(process().place, "ctl", 4711, "1")
SECOND = process(os.getppid())
ELSEWHERE = Process("other/pid:[1]", "ci", 7, "1")


@pytest.fixture
def clock() -> Time:
    return Time()


def run(name: str, leader: Process | None = None, nodes: Mapping[str, str] | None = None) -> Claim:
    who, rows = leader or process(), nodes or {"gpu-1": "m1"}
    return Claim(name, "site.yml", "root@ctl", "2026-11-22T09:00:00Z", who, who, rows)


def entered(memory: Memory) -> set[str]:
    return set(memory.objects.get(PATH, {}).get("data") or {})


def enter(memory: Memory, clock: Time, mine: Claim) -> list[str]:
    said: list[str] = []
    claims.claim(memory.cluster, mine, said.append, clock.sleep, clock.clock)
    return said


def test_the_first_comes_in_and_goes(clock: Time) -> None:
    memory = Memory({})
    enter(memory, clock, run("a"))
    assert entered(memory) == {"a"}
    assert claims.read(memory.objects[PATH]["data"]["a"]) == run("a")
    claims.release(memory.cluster, "a")
    assert entered(memory) == set()


def test_runs_on_different_nodes_both_work(clock: Time) -> None:
    memory = Memory({})
    enter(memory, clock, run("a"))
    enter(memory, clock, run("b", nodes={"gpu-2": "m2"}))
    assert entered(memory) == {"a", "b"}
    claims.release(memory.cluster, "a")
    assert entered(memory) == {"b"}


@pytest.mark.parametrize("nodes", [{"gpu-1": "", "gpu-3": "m3"}, {"node-9": "m1"}], ids=["name", "machine"])
def test_the_second_is_refused_by_name(clock: Time, nodes: dict[str, str]) -> None:
    memory = Memory({})
    enter(memory, clock, run("a"))
    before = dict(memory.objects[PATH]["data"])
    with pytest.raises(Taken) as refused:
        enter(memory, clock, run("b", SECOND, nodes))
    assert "'site.yml' of root@ctl" in str(refused.value)
    assert f"(process {os.getpid()}), since 2026-11-22T09:00:00Z" in str(refused.value)
    assert "Nothing was changed" in str(refused.value)
    assert memory.objects[PATH]["data"] == before
    assert clock.slept == []


def test_a_run_that_is_dead_goes_at_once(clock: Time) -> None:
    memory = Memory({})
    enter(memory, clock, run("a", DEAD))
    assert enter(memory, clock, run("b")) == []
    assert entered(memory) == {"b"}


def test_tasks_of_a_killed_run_are_waited_for(clock: Time) -> None:
    memory = Memory({})
    enter(memory, clock, replace(run("a", DEAD), keeper=process()))
    with pytest.raises(Taken, match="It was killed, and its tasks go on"):
        enter(memory, clock, run("b"))
    assert clock.now == claims.ORPHANS_S

    def ends(seconds: float) -> None:
        clock.sleep(seconds)
        memory.objects[PATH]["data"].pop("a", None)

    said: list[str] = []
    claims.claim(memory.cluster, run("b"), said.append, ends, clock.clock)
    assert entered(memory) == {"b"}
    assert "waiting" in said[0]


def test_a_run_elsewhere_is_dead_when_it_is_silent(clock: Time) -> None:
    memory = Memory({})
    enter(memory, clock, run("a", ELSEWHERE))
    enter(memory, clock, run("b"))
    assert clock.now == claims.SILENT_S
    assert entered(memory) == {"b"}


def test_a_run_elsewhere_that_gives_a_sign_of_life_is_refused(clock: Time) -> None:
    memory = Memory({})
    far = run("a", ELSEWHERE)
    enter(memory, clock, far)

    def beats(seconds: float) -> None:
        clock.sleep(seconds)
        assert claims.beat(memory.cluster, far) is not None

    with pytest.raises(Taken, match="worked on by another run"):
        claims.claim(memory.cluster, run("b"), print, beats, clock.clock)
    assert entered(memory) == {"a"}


def test_who_comes_in_between_look_and_entry_is_seen(clock: Time) -> None:
    memory = Memory({})
    enter(memory, clock, run("z", nodes={"gpu-9": "m9"}))
    look = memory.get

    def get(path: str) -> Any:
        there = look(path)
        memory.__dict__.pop("get")
        enter(memory, clock, run("a"))
        return there

    memory.__dict__["get"] = get
    with pytest.raises(Taken):
        enter(memory, clock, run("b", SECOND))
    assert entered(memory) == {"z", "a"}


def test_a_run_is_never_in_its_own_way(clock: Time) -> None:
    memory = Memory({})
    enter(memory, clock, run("a"))
    # Its next playbook, and an entry whose answer was lost.
    enter(memory, clock, run("b"))
    enter(memory, clock, run("b"))
    assert entered(memory) == {"a", "b"}


def test_a_run_of_a_later_release_counts(clock: Time) -> None:
    memory = Memory({})
    enter(memory, clock, run("a"))
    rows = memory.objects[PATH]["data"]
    rows["a"] = json.dumps({**json.loads(rows["a"]), "waves": 3})
    with pytest.raises(Taken):
        enter(memory, clock, run("b", SECOND))


def test_a_run_whose_entry_was_taken_away_does_not_come_back(clock: Time) -> None:
    memory = Memory({})
    enter(memory, clock, run("a"))
    claims.release(memory.cluster, "a")
    assert claims.beat(memory.cluster, run("a")) is None
    assert entered(memory) == set()


def test_an_entry_that_nobody_can_read_is_in_nobodys_way(clock: Time) -> None:
    memory = Memory({PATH: {"metadata": {"resourceVersion": "1"}, "data": {"x": "[]", "y": '{"run": 1}'}}})
    enter(memory, clock, run("a"))
    assert "a" in entered(memory)


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


def test_a_keeper_that_cannot_connect_is_no_claim() -> None:
    def fails() -> Cluster:
        raise ToolError("No.")

    with pytest.raises(ToolError, match="could not start"):
        keeper_module.start(fails, run("a"), print)


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


def test_only_who_holds_a_claim_may_go_on(clock: Time) -> None:
    memory = Memory({})
    with pytest.raises(Lost, match="no claim on node 'gpu-1' any more"):
        claims.must_hold(memory.cluster, "gpu-1", process())
    enter(memory, clock, run("a"))
    claims.must_hold(memory.cluster, "gpu-1", process())
    for node, who in (("gpu-2", process()), ("gpu-1", SECOND)):
        with pytest.raises(Lost, match="no claim"):
            claims.must_hold(memory.cluster, node, who)
    enter(memory, clock, run("b", DEAD, {"gpu-2": "m2"}))
    with pytest.raises(Lost, match="has ended"):
        claims.must_hold(memory.cluster, "gpu-2", DEAD)
