"""The watch of the end-to-end tests of upgrades sees each invariant that does not hold."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from gpusmith.names import STARTUP_TAINT, UPGRADE
from gpusmith.upgrade.ledger import Ledger, State, written
from tests.e2e import upgrades
from tests.e2e.upgrades import Eyes, Watch

Change = Callable[["Seen"], None]


def a_node(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {}, "annotations": {}},
        "spec": {},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"nvidia.com/gpu": "4"},
        },
    }


@dataclass
class Seen(Eyes):
    """What the cluster says, by hand."""

    objects: dict[str, Any] = field(
        default_factory=lambda: {f"gpu-{n}": a_node(f"gpu-{n}") for n in (1, 2, 3)}
    )
    running: list[dict[str, Any]] = field(
        default_factory=lambda: [
            {"metadata": {"name": "job"}, "spec": {"nodeName": "gpu-1"}, "status": {"phase": "Running"}}
        ]
    )
    answers: bool = True

    def nodes(self) -> dict[str, Any]:
        return copy.deepcopy(self.objects)

    def pods(self, namespace: str) -> list[dict[str, Any]]:
        return copy.deepcopy(self.running)

    def service(self, namespace: str, name: str) -> str:
        if not self.answers:
            raise OSError("refused")
        return "hello"


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    monkeypatch.setattr(upgrades, "BETWEEN_TRIES_S", 0)
    return Seen()


def watched(seen: Seen, **more: Any) -> Watch:
    gpus = dict.fromkeys(seen.objects, 4)
    return Watch(seen, gpus, 4, "work", frozenset({"job"}), "serving", **more)


def cordon(*names: str) -> Change:
    def change(seen: Seen) -> None:
        for name in names:
            seen.objects[name]["spec"]["unschedulable"] = True

    return change


def entry(name: str, state: State) -> Change:
    def change(seen: Seen) -> None:
        text = written(Ledger(run="r", target="2", origin="1", state=state, since="now"))
        seen.objects[name]["metadata"]["annotations"][UPGRADE] = text

    return change


def both(*changes: Change) -> Change:
    def change(seen: Seen) -> None:
        for each in changes:
            each(seen)

    return change


def status(name: str, **values: Any) -> Change:
    return lambda seen: seen.objects[name]["status"].update(values)


def pod(phase: str = "Running", **metadata: Any) -> Change:
    def change(seen: Seen) -> None:
        seen.running[0]["metadata"] |= metadata
        seen.running[0]["status"]["phase"] = phase

    return change


HOLDS: dict[str, Change] = {
    "nothing": both(),
    "one-node-out": cordon("gpu-1"),
    "its-ledger": both(cordon("gpu-1"), entry("gpu-1", State.DRAINING)),
    "the-job-ended": both(pod("Succeeded"), cordon("gpu-1"), entry("gpu-1", State.CHANGING)),
    "a-finished-ledger": both(cordon("gpu-1"), entry("gpu-2", State.DONE)),
}
BREAKS: dict[str, tuple[Change, str]] = {
    "two-nodes-out": (cordon("gpu-1", "gpu-2"), "8 GPUs out, of 4"),
    "not-ready": (
        both(cordon("gpu-1"), status("gpu-2", conditions=[{"type": "Ready", "status": "Unknown"}])),
        "8 GPUs out",
    ),
    "a-gpu-missing": (
        both(cordon("gpu-1"), status("gpu-2", allocatable={"nvidia.com/gpu": "3"})),
        "8 GPUs out",
    ),
    "unvalidated": (
        both(
            cordon("gpu-1"),
            lambda seen: seen.objects["gpu-2"]["spec"].update(taints=[{"key": STARTUP_TAINT}]),
        ),
        "8 GPUs out",
    ),
    "uncordoned-too-early": (both(cordon("gpu-1"), entry("gpu-2", State.VALIDATING)), "8 GPUs out"),
    "the-job-is-ended": (pod(deletionTimestamp="now"), "pod 'job' was deleted"),
    "the-job-failed": (pod("Failed"), "pod 'job' is Failed"),
    "the-job-is-gone": (lambda seen: seen.running.clear(), "pod 'job' was deleted"),
    "changed-under-it": (both(cordon("gpu-1"), entry("gpu-1", State.CHANGING)), "runs while the driver"),
    "no-answer": (lambda seen: setattr(seen, "answers", False), "does not answer: refused"),
}


@pytest.mark.parametrize("change", HOLDS.values(), ids=HOLDS)
def test_what_may_be(seen: Seen, change: Change) -> None:
    watch = watched(seen)
    change(seen)
    watch.look()
    assert watch.broken == []


@pytest.mark.parametrize(("change", "says"), BREAKS.values(), ids=BREAKS)
def test_what_may_not(seen: Seen, change: Change, says: str) -> None:
    watch = watched(seen)
    change(seen)
    watch.look()
    assert says in "\n".join(watch.broken)


def test_nodes_of_others(seen: Seen) -> None:
    watch = watched(seen, foreign=frozenset({"gpu-2"}), untouched=frozenset({"gpu-3"}))
    cordon("gpu-2")(seen)
    watch.look()
    assert watch.broken == []
    del seen.objects["gpu-2"]["spec"]["unschedulable"]
    cordon("gpu-3")(seen)
    watch.look()
    assert [line[9:] for line in watch.broken] == [
        "'gpu-2' was cordoned by somebody else, and is not any more",
        "'gpu-3' is not left alone: cordoned",
    ]


def test_a_watch_that_sees_nothing_fails(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrades, "TICK_S", 0.001)
    watch = watched(seen)
    seen.objects.clear()
    with pytest.raises(AssertionError, match="0 samples"), watch.on():
        upgrades.wait_for("looks", lambda: watch.blind > 3, 10)


def test_it_keeps_the_states_in_order(seen: Seen) -> None:
    watch = watched(seen)
    for state in (State.DRAINING, State.DRAINING, State.QUIET):
        both(cordon("gpu-1"), entry("gpu-1", state))(seen)
        watch.look()
    assert watch.states["gpu-1"] == ["draining", "quiet"]
    assert watch.most_out == 4
