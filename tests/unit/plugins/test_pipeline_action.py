"""The pipeline as a playbook runs it: refused before a change, step after step, and taken away."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.errors import InputError
from gpusmith.verdict.changes import TELLS
from tests.unit.pipeline.world import World
from tests.unit.plugins.test_operands_actions import act

ASKED: dict[str, Any] = {
    "namespace": "here",
    "image": "image",
    "storage_class": "nfs",
    "node_port": 30002,
    "train_s": 1,
    "simulated": True,
    "tolerations": [],
    "pull_secrets": [],
    "timeout": 0,
    "prometheus": "",
    "interval_s": 30,
}
STEPS = ("refuse", "preprocess", "train", "inference", "predict")


def run(world: World, monkeypatch: pytest.MonkeyPatch, step: str, check: bool = False) -> dict[str, Any]:
    return act("pipeline", world, monkeypatch, check, **{**ASKED, "step": step})


@pytest.fixture
def world() -> World:
    made = World()
    made.objects["/api/v1/nodes/gpu"]["metadata"]["labels"]["gpusmith.io/simulated"] = "true"
    return made


def test_a_run_tells_a_line_for_each_step(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line for step in STEPS for line in run(world, monkeypatch, step)[TELLS]["the cluster"]["notes"]]
    assert [line.partition(":")[0] for line in lines] == ["preprocess", "train", "inference", "predict"]


def test_the_verdict_is_told_what_changed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    told = [run(world, monkeypatch, step)[TELLS]["the cluster"] for step in STEPS]
    assert [bool(said["changes"]) for said in told] == [False, True, True, True, False]


def test_in_check_mode_nothing_is_made_and_all_is_named(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = dict(world.objects)
    for _ in ("first", "again"):
        names = [name for step in STEPS for name in run(world, monkeypatch, step, check=True)["objects"]]
        assert {"Job 'here/train'", "Deployment 'here/inference'"} <= set(names)
        if world.objects == before:
            for step in STEPS:
                run(world, monkeypatch, step)
            before = dict(world.objects)
    assert world.objects == before


def test_what_cannot_work_is_refused_before_a_change(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    del world.objects["/apis/storage.k8s.io/v1/storageclasses/nfs"]
    with pytest.raises(InputError, match="gpu_pipeline_storage_class"):
        run(world, monkeypatch, "refuse")
    assert world.done == []


def test_removal(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(world.objects)
    for step in STEPS:
        run(world, monkeypatch, step)
    assert run(world, monkeypatch, "remove")["changed"]
    assert set(world.objects) == before
    assert not run(world, monkeypatch, "remove")["changed"]
