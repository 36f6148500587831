"""The steps carry out a change that is none of a driver: how the GPUs of a node are shared, made up for this test."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from gpusmith.change import ledger
from gpusmith.change.ledger import Ledger, State
from gpusmith.change.outcome import Result, Times
from gpusmith.change.protocol import ChangeFailed, Words
from gpusmith.change.steps import NodeChange
from gpusmith.names import OPERANDS_ON, UPGRADE
from tests.unit.change.world import GPUS, NAME, Killed, World

WHOLE, HALVES = "whole", "halves"
KEPT = "example.com/layout-before"
WORDS = Words("layout change", "a GPU", "reading", "stopping", "writing", "starting", "the layout")


@dataclass
class Layout:
    """It needs no packages and stops nothing: what it does is write a layout and look at what came of it."""

    words: Words = WORDS
    layout: str = WHOLE
    bad: str = ""
    did: list[str] = field(default_factory=list)
    killed_in: str = ""

    def _do(self, step: str) -> None:
        self.did.append(step)
        if self.killed_in == step:
            self.killed_in = ""
            raise Killed

    def prepare(self, version: str) -> None:
        self._do("prepare")

    def precheck(self, version: str) -> None:
        self._do("precheck")

    def is_there(self, version: str) -> bool:
        return self.layout == version

    def users(self, stopped: Sequence[str], of_pods: bool = True) -> Sequence[str]:
        return []

    def stop(self, units: Sequence[str]) -> None:
        self._do("stop")

    def apply(self, version: str) -> None:
        self._do("apply")
        self.layout = version

    def start(self, version: str, units: Sequence[str]) -> None:
        self._do("start")

    def snapshot(self, earlier: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        return {"gpus": GPUS}

    def compare(self, before: Mapping[str, Any]) -> None:
        assert before == {"gpus": GPUS}

    def prove(self, version: str) -> None:
        self._do("prove")
        if version == self.bad:
            raise ChangeFailed(f"no pod gets a GPU of '{version}'")

    def stale(self, node: Mapping[str, Any], version: str) -> Sequence[str]:
        return []

    def remembered(self, entry: Ledger) -> Mapping[str, str | None]:
        return {KEPT: entry.origin}


class Cluster(World):
    """GPUs are offered whenever the operands are there."""

    def allocatable(self) -> int:
        return GPUS if self.label == OPERANDS_ON else 0

    def must(self, true: bool, words: str) -> None:
        """What a driver's node must be like says nothing here."""


def run(cluster: Cluster, layout: Layout, number: int = 1) -> tuple[Result, list[str]]:
    said: list[str] = []
    outcome = NodeChange(
        name=NAME,
        run=f"run-{number}",
        target=HALVES,
        origin=WHOLE,
        change=layout,
        cluster=cluster,
        fence=lambda: None,
        say=lambda state, words: said.append(f"{state}: {words}"),
        gpus=GPUS,
        times=Times(60, 20, 20),
        sleep=cluster.sleep,
        clock=lambda: cluster.time,
    ).carry_out()
    return outcome.result, said


def test_a_node_is_admitted_emptied_changed_and_proved() -> None:
    cluster, layout = Cluster(job_ends=2), Layout()
    result, said = run(cluster, layout)
    assert (result, layout.layout, cluster.cordoned) == (Result.UPGRADED, HALVES, False)
    assert layout.did == ["prepare", "prepare", "precheck", "stop", "apply", "start", "prove"]
    assert "draining: waiting for no pod to hold a GPU: somebody" in said
    assert "changing: writing halves" in said
    assert cluster.object["metadata"]["annotations"][KEPT] == WHOLE


def test_what_another_change_began_is_left_to_it() -> None:
    cluster, layout = Cluster(), Layout(killed_in="apply")
    with pytest.raises(Killed):
        run(cluster, layout)
    begun, upgrade = copy.deepcopy(cluster.object), Layout(words=replace(WORDS, name="driver upgrade"))
    assert run(cluster, upgrade, 2)[0] is Result.UNTOUCHED
    assert (upgrade.did, cluster.object) == ([], begun)


def test_what_cannot_be_proved_goes_back() -> None:
    cluster, layout = Cluster(), Layout(bad=HALVES)
    assert run(cluster, layout)[0] is Result.ROLLED_BACK
    assert (layout.layout, cluster.cordoned) == (WHOLE, False)
    assert layout.did[-4:] == ["stop", "apply", "start", "prove"]
    assert KEPT not in cluster.object["metadata"]["annotations"]


def test_a_run_that_was_killed_goes_on_and_others_are_told_what_it_is() -> None:
    cluster, layout = Cluster(), Layout(killed_in="apply")
    with pytest.raises(Killed):
        run(cluster, layout)
    assert ledger.unfinished(cluster.object).startswith(
        "its layout change from whole to halves is 'changing'"
    )
    assert run(cluster, layout, 2)[0] is Result.UPGRADED
    written = json.loads(cluster.object["metadata"]["annotations"][UPGRADE])
    assert (written["state"], written["change"]) == (State.DONE, "layout change")
