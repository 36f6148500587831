"""The ledger on a Node object."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gpusmith.change import ledger
from gpusmith.change.ledger import FINISHED, Ledger, State, Unreadable
from gpusmith.names import SENTINEL_LABEL, UPGRADE

ENTRY = Ledger(
    run="r1",
    target="580.200.01",
    origin="580.178.04",
    state=State.CHANGING,
    since="2026-11-22T12:00:00Z",
    cordoned=True,
    gpus=4,
    model="NVIDIA H100 80GB HBM3",
    stopped=("nvidia-dcgm.service",),
    before={"GPU-1": {"vbios": "96"}},
)


def node(text: str | None) -> dict[str, Any]:
    """A Node object with that annotation."""
    return {
        "metadata": {
            "name": "gpu-1",
            "resourceVersion": "7",
            "annotations": {} if text is None else {UPGRADE: text},
        }
    }


def test_it_is_read_as_it_was_written() -> None:
    assert ledger.read(node(ledger.written(ENTRY))) == ENTRY


def test_a_node_without_one_has_none() -> None:
    assert ledger.read(node(None)) is None
    assert ledger.unfinished(node(None)) == ""


@pytest.mark.parametrize("state", State)
def test_only_a_finished_one_leaves_the_node_to_others(state: State) -> None:
    words = ledger.unfinished(node(ledger.written(replace(ENTRY, state=state, reason="why"))))
    assert (words == "") == (state in FINISHED)
    if words:
        assert "580.178.04" in words
        assert f"'{state}'" in words
        assert "(why)" in words


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"schema": 2}', json.dumps({"schema": 1, "state": "lost"})]
)
def test_what_is_no_ledger_is_never_taken_for_finished(text: str) -> None:
    with pytest.raises(Unreadable):
        ledger.read(node(text))
    assert "can read" in ledger.unfinished(node(text))


def test_a_later_release_may_say_more() -> None:
    raw = json.loads(ledger.written(ENTRY))
    assert ledger.read(node(json.dumps({**raw, "more": 1}))) == ENTRY


def test_cordon_and_ledger_are_one_patch_of_the_node_as_it_was_read() -> None:
    body = ledger.patch(node(None), ENTRY, cordon=True)
    assert body["metadata"]["resourceVersion"] == "7"
    assert body["spec"] == {"unschedulable": True}
    assert ledger.read(body) == ENTRY


def test_a_cordon_is_left_alone_unless_it_is_asked_for() -> None:
    assert "spec" not in ledger.patch(node(None), ENTRY)
    assert ledger.patch(node(None), ENTRY, cordon=False)["spec"] == {"unschedulable": None}


def test_what_a_node_remembers_is_of_the_same_patch() -> None:
    written = ledger.patch(node(None), ENTRY, others={"kept": "it", "gone": None})["metadata"]["annotations"]
    assert (written["kept"], written["gone"], UPGRADE in written) == ("it", None, True)
    assert list(ledger.patch(node(None), ENTRY)["metadata"]["annotations"]) == [UPGRADE]


def test_the_ledger_of_an_earlier_release_is_read() -> None:
    raw = json.loads(ledger.written(ENTRY))
    del raw["change"]
    assert ledger.read(node(json.dumps(raw))) == replace(ENTRY, change="driver upgrade")


@pytest.mark.parametrize(
    ("labels", "before"),
    [
        ({}, None),
        ({"nvsentinel.dgxc.nvidia.com/driver.installed": "true"}, ""),
        ({SENTINEL_LABEL: "true"}, "true"),
        ({SENTINEL_LABEL: "false", "nvsentinel.dgxc.nvidia.com/dcgm.version": "4.x"}, None),
    ],
)
def test_nvsentinel_leaves_a_node_alone_as_long_as_the_change_takes(
    labels: dict[str, str], before: str | None
) -> None:
    there = node(None)
    there["metadata"]["labels"] = labels
    entry = replace(ENTRY, opted_out=ledger.to_opt_out(there))
    assert entry.opted_out == before
    for state in State:
        body = ledger.patch(there, replace(entry, state=state))
        after = {**labels, **body["metadata"].get("labels", {})}
        expected = "false" if before is not None and state not in FINISHED else labels.get(SENTINEL_LABEL)
        assert after.get(SENTINEL_LABEL) == expected, state
