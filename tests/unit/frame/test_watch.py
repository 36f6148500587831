"""The watch of the end-to-end tests of upgrades sees each invariant that does not hold."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import pytest

from gpusmith.change.ledger import Ledger, State, written
from gpusmith.names import STARTUP_TAINT, UPGRADE
from tests.e2e import upgrades
from tests.e2e.upgrades import Eyes, Watch

CORDONED = {"spec": {"unschedulable": True}}
NOT_READY = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
A_GPU_MISSING = {"status": {"allocatable": {"nvidia.com/gpu": "3"}}}
UNVALIDATED = {"spec": {"taints": [{"key": STARTUP_TAINT}]}}


def a_node(name: str) -> dict[str, Any]:
    status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"nvidia.com/gpu": "4"}}
    return {"metadata": {"name": name, "labels": {}, "annotations": {}}, "spec": {}, "status": status}


def entry(state: State) -> dict[str, Any]:
    ledger = Ledger(run="r", target="2", origin="1", state=state, since="now")
    return {"metadata": {"annotations": {UPGRADE: written(ledger)}}}


@dataclass
class Seen(Eyes):
    """What the cluster says, by hand: three nodes of four GPUs, and a Job on the first."""

    objects: dict[str, Any] = field(
        default_factory=lambda: {name: a_node(name) for name in ("gpu-1", "gpu-2", "gpu-3")}
    )
    job: dict[str, Any] = field(
        default_factory=lambda: {
            "metadata": {"name": "job"}, "spec": {"nodeName": "gpu-1"}, "status": {"phase": "Running"}
        }
    )  # fmt: skip
    answers: bool = True

    def nodes(self) -> dict[str, Any]:
        return copy.deepcopy(self.objects)

    def pods(self, namespace: str) -> list[dict[str, Any]]:
        return [copy.deepcopy(self.job)] if self.job else []

    def service(self, namespace: str, name: str) -> str:
        if not self.answers:
            raise OSError("refused")
        return "hello"

    def change(self, **nodes: dict[str, Any]) -> None:
        """By 'gpu_1' or 'job': parts of the object that become others."""
        for name, parts in nodes.items():
            for part, values in parts.items():
                (self.job if name == "job" else self.objects[name.replace("_", "-")])[part] |= values


def watched(seen: Seen, **more: Any) -> Watch:
    return Watch(seen, dict.fromkeys(seen.objects, 4), 4, "work", frozenset({"job"}), "serving", **more)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, ""),
        ({"gpu_1": {**CORDONED, **entry(State.DRAINING)}}, ""),
        ({"job": {"status": {"phase": "Succeeded"}}, "gpu_1": {**CORDONED, **entry(State.CHANGING)}}, ""),
        ({"gpu_1": CORDONED, "gpu_2": entry(State.DONE)}, ""),
        ({"gpu_1": CORDONED, "gpu_2": CORDONED}, "8 GPUs out, of 4"),
        ({"gpu_1": CORDONED, "gpu_2": NOT_READY}, "8 GPUs out"),
        ({"gpu_1": CORDONED, "gpu_2": A_GPU_MISSING}, "8 GPUs out"),
        ({"gpu_1": CORDONED, "gpu_2": UNVALIDATED}, "8 GPUs out"),
        ({"gpu_1": CORDONED, "gpu_2": entry(State.VALIDATING)}, "8 GPUs out"),
        ({"job": {"metadata": {"deletionTimestamp": "now"}}}, "pod 'job' was deleted"),
        ({"job": {"status": {"phase": "Failed"}}}, "pod 'job' is Failed"),
        ({"gpu_1": {**CORDONED, **entry(State.CHANGING)}}, "runs while the driver"),
    ],
)
def test_what_may_be_and_what_may_not(change: dict[str, Any], says: str) -> None:
    seen = Seen()
    watch = watched(seen)
    seen.change(**change)
    watch.look()
    assert says in "\n".join(watch.broken)
    assert bool(watch.broken) == bool(says)


def test_a_pod_that_is_gone_and_a_service_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrades, "BETWEEN_TRIES_S", 0)
    watch = watched(Seen(job={}, answers=False))
    watch.look()
    assert [line[9:] for line in watch.broken] == [
        "pod 'job' was deleted",
        "Service 'serving' does not answer: refused",
    ]


def test_nodes_of_others() -> None:
    seen = Seen()
    watch = watched(seen, foreign=frozenset({"gpu-2"}), untouched=frozenset({"gpu-3"}))
    seen.change(gpu_3=CORDONED)
    watch.look()
    assert [line[9:] for line in watch.broken] == [
        "'gpu-2' was cordoned by somebody else, and is not any more",
        "'gpu-3' is not left alone: cordoned",
    ]


def test_a_watch_that_sees_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrades, "TICK_S", 0.001)
    seen = Seen()
    watch = watched(seen)
    seen.objects.clear()
    with pytest.raises(AssertionError, match="0 samples"), watch.on():
        upgrades.wait_for("looks", lambda: watch.blind > 3, 10)


def test_it_keeps_the_states_in_order() -> None:
    seen = Seen()
    watch = watched(seen)
    for state in (State.DRAINING, State.DRAINING, State.QUIET):
        seen.change(gpu_1={**CORDONED, **entry(state)})
        watch.look()
    assert (watch.states["gpu-1"], watch.most_out) == (["draining", "quiet"], 4)
