"""Workloads by what they declare: their order, and what cannot be put in order."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.checks.register import catalog
from gpusmith.errors import InputError
from gpusmith.inventory.specs import load
from gpusmith.workloads import register
from gpusmith.workloads.judge import Judged
from gpusmith.workloads.register import in_order, workload

SEVERAL = ["workloads.pytorch-nodes", "workloads.tensorflow-nodes"]


def declare(name: str, **needs: Any) -> None:
    words = {"place": 45, "proves": "p", "fails_when": "f", "do": "d", "title": "made up", "gpus": 1}
    workload(f"workloads.{name}", **{**words, **needs})(lambda *pods: Judged({}))


def test_steps_follow_what_workloads_declare() -> None:
    steps, together = in_order()
    assert [[row.check.removeprefix("workloads.") for row in step] for step in steps] == [
        ["nvidia-smi"], ["cuda"], ["throttle", "pytorch", "tensorflow"], ["network", "performance"],
        ["isolation", "gpu-type"], ["allocation"], ["oversubscription"], ["preemption"],
    ]  # fmt: skip
    assert [row.check for row in together] == SEVERAL


@pytest.mark.usefixtures("register_open")
def test_a_workload_comes_when_those_before_it_are_done_and_is_a_check() -> None:
    declare("own", after=["workloads.cuda"])
    steps, _ = in_order()
    assert [row.check for row in steps[2]] == [
        f"workloads.{name}" for name in ("throttle", "pytorch", "own", "tensorflow")
    ]
    assert catalog()["workloads.own"].tier == "workloads"


@pytest.mark.usefixtures("register_open")
def test_workloads_of_several_nodes_come_last() -> None:
    declare("ring", nodes=4, after=["workloads.pair"])
    declare("pair", nodes=2, after=["workloads.nvidia-smi"])
    steps, together = in_order()
    assert len(steps) == 8
    assert [row.check for row in together] == ["workloads.pair", "workloads.ring", *SEVERAL]


@pytest.mark.usefixtures("register_open")
@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ({"own": {"after": ["workloads.cdua"]}}, "'workloads.own' comes after 'workloads.cdua', which is no"),
        (
            {"a": {"after": ["workloads.b"]}, "b": {"after": ["workloads.a"]}},
            "wait for each other: workloads.",
        ),
        (
            {"pair": {"nodes": 2}, "own": {"after": ["workloads.pair"]}},
            "'workloads.own' of one node comes after 'workloads.pair'",
        ),
    ],
    ids=["unknown", "circle", "several nodes first"],
)
def test_what_cannot_be_put_in_order_is_refused(declared: dict[str, Any], says: str) -> None:
    for name, needs in declared.items():
        declare(name, **needs)
    with pytest.raises(InputError, match=says):
        in_order()


def test_every_workload_has_an_image_that_inventories_can_name() -> None:
    catalog()
    images = load().variables["validation_images"].options
    assert {row.image for row in register._WORKLOADS.values()} <= set(images)
