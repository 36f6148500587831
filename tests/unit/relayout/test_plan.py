"""Which nodes a layout change is for, and what it refuses."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from typing import Any

import pytest

from gpusmith.change.budget import Fleet, Rules
from gpusmith.change.ledger import State
from gpusmith.cluster.stamps import LAYOUT
from gpusmith.names import HOLD, LAYOUT_LABEL, STAMP
from gpusmith.relayout.plan import Look, make
from gpusmith.upgrade.plan import Plan
from gpusmith.wanted.layouts import WHOLE, Layout
from gpusmith.wanted.node import NodeWanted, Operands
from tests.unit.upgrade.nodes import NOW, entry, node

SHARED, MORE = Layout(4, "nvidia.com/gpu.shared"), Layout(8, "nvidia.com/gpu.shared")
RULES = Rules("r1", "", canaries=1, soak_s=0)


def of(name: str, wanted: Layout, *, has: Layout = WHOLE, label: str | None = None, **changes: Any) -> Look:
    """A host that has a layout and is to have another one."""
    value = has.label if label is None else label
    there = node(name, labels={LAYOUT_LABEL: value} if value else {}, **changes)
    if has.shared:
        counts = {has.resource: str(4 * has.shares)}
        there["status"] |= {"capacity": counts, "allocatable": counts}
        there["metadata"]["annotations"][STAMP] = json.dumps({"driver": "1", LAYOUT: has.name, "time": NOW})
    return Look(NodeWanted(name=name, gpu_count=4).with_layout(wanted), there)


def plan(*looks: Look, members: int = 4) -> Plan:
    nodes = [look.node for look in looks if look.node]
    fleet = Fleet.of(nodes, {look.name: members for look in looks}, LAYOUT)
    return make(looks, fleet, RULES, dt.datetime.fromisoformat(NOW), [], "gpusmith-system")


def actions(found: Plan) -> dict[str, tuple[str, str]]:
    return {row.name: (str(row.action), row.reason) for row in found.rows}


def test_nodes_that_have_another_layout_go_one_after_the_other() -> None:
    found = plan(of("a", SHARED), of("b", SHARED), of("c", SHARED, has=SHARED))
    assert actions(found) == {
        "a": ("change", ""),
        "b": ("change", ""),
        "c": ("none", "it has that layout, validated"),
    }
    assert [(row.origin, row.target, row.gpus, row.wave) for row in found.rows] == [
        ("whole", "time-slicing-4", 4, 1),
        ("whole", "time-slicing-4", 4, 2),
        ("time-slicing-4", "time-slicing-4", 4, None),
    ]
    assert (found.rules.target, found.queue, found.refused) == ("time-slicing-4", ("a", "b"), {})


def test_back_to_whole_gpus_is_a_change_like_another() -> None:
    (row,) = plan(of("a", WHOLE, has=SHARED)).rows
    assert (row.origin, row.target, row.goes) == ("time-slicing-4", "whole", True)


@pytest.mark.parametrize(
    ("changes", "action"),
    [
        ({}, "change"),
        ({"allocatable": 3}, "change"),
        ({"cordoned": True}, "skip"),
        ({"ready": False}, "skip"),
    ],
)
def test_gpus_that_somebody_divided_in_another_way_are_put_right(
    changes: dict[str, Any], action: str
) -> None:
    look = replace(of("a", WHOLE, **changes), astray="GPU 1 is in MIG mode")
    (row,) = plan(look).rows
    assert (row.origin, row.target, str(row.action)) == ("whole", "whole", action)
    assert ("GPU 1 is in MIG mode" in row.reason) is (action == "change")


@pytest.mark.parametrize(
    ("look", "action", "says"),
    [
        (of("a", SHARED, cordoned=True), "skip", "somebody else cordoned it"),
        (of("a", SHARED, tainted=True), "change", ""),
        (of("a", SHARED, ready=False), "skip", "out already: not Ready"),
        (of("a", SHARED, allocatable=3), "skip", "3 of 4 GPUs offered"),
        (of("a", SHARED, stamp=""), "change", ""),
        (of("a", WHOLE, stamp=""), "none", "it has that layout; site.yml validates it"),
        (replace(of("a", SHARED), node=None), "refuse", "the cluster has no such node"),
        (replace(of("a", SHARED), answered=False), "refuse", "does not answer"),
        (of("a", SHARED, label="by-hand"), "refuse", "which nothing serves"),
        (of("a", SHARED, entry=entry(State.CHANGING)), "refuse", "unfinished change"),
        (
            of(
                "a",
                SHARED,
                entry=entry(State.ROLLED_BACK, target="time-slicing-4", change="layout change", reason="x"),
            ),
            "change",
            "an earlier try ended 'rolled_back'",
        ),
    ],
)
def test_who_goes_and_who_does_not(look: Look, action: str, says: str) -> None:
    found = plan(look)
    ((seen, reason),) = actions(found).values()
    told = " ".join([reason, *(str(row) for rows in found.refused.values() for row in rows)])
    assert (seen, says in told) == (action, True), told


def test_a_veto_holds() -> None:
    look = of("a", SHARED)
    assert look.node is not None
    look.node["metadata"]["annotations"][HOLD] = "Ann"
    assert actions(plan(look)) == {"a": ("skip", f"'{HOLD}' is on it")}


def test_a_plugin_of_others_is_theirs_to_configure() -> None:
    look = of("a", SHARED)
    look = replace(look, wanted=replace(look.wanted, operands=Operands(device_plugin="existing")))
    assert "owner of the device plugin" in str(plan(look).refused["a"][0])


@pytest.mark.parametrize(
    ("wanted", "action", "back"),
    [(SHARED, "resume", False), (WHOLE, "resume", True), (MORE, "refuse", False)],
)
def test_a_change_that_was_begun_goes_on_or_back_as_the_inventory_says(
    wanted: Layout, action: str, back: bool
) -> None:
    begun = replace(
        entry(State.CHANGING, target="time-slicing-4", change="layout change", gpus=4), origin="whole"
    )
    # The label may be there already.
    look = of("a", wanted, has=SHARED, entry=begun, cordoned=True)
    assert actions(plan(look))["a"][0] == action
    assert look.back is back


def test_one_run_is_about_one_layout() -> None:
    found = plan(of("a", SHARED), of("b", MORE))
    assert "'time-slicing-4', 'time-slicing-8'" in str(found.refused["a"][0])
    assert (found.queue, set(found.refused)) == ((), {"a", "b"})
