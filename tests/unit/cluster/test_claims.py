"""Two runs never work on one node, and a dead one is in nobody's way."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

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


def test_a_keeper_that_cannot_connect_is_no_claim() -> None:
    def fails() -> Cluster:
        raise ToolError("No.")

    with pytest.raises(ToolError, match="could not start"):
        keeper_module.start(fails, run("a"), print)


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
