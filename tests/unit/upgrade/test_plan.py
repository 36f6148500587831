"""The plan: order, waves, what it says of each host, as JSON and for a person."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusmith.change.budget import Fleet, Rules, limit
from gpusmith.change.forecast import Timing
from gpusmith.change.ledger import State
from gpusmith.upgrade.hosts import STAMPED, Action, Look
from gpusmith.upgrade.plan import SCHEMA, Plan, make, to_json
from gpusmith.upgrade.table import lines
from gpusmith.wanted.node import Driver, NodeWanted
from tests.unit.records import healthy_record
from tests.unit.upgrade.nodes import H100, NEW, OLD, entry, node
from tests.unit.upgrade.test_disruption import budget, pod
from tests.unit.upgrade.test_hosts import ASKED, TABLES, Process, look

RULES = Rules(run="r1", target=NEW)


def host(row: dict[str, Any], **more: Any) -> Look:
    """A host of the inventory by the name of its Node."""
    return replace(look(row, **more), name=row["metadata"]["name"])


def plan(
    *looks: Look,
    others: tuple[dict[str, Any], ...] = (),
    budgets: tuple[dict[str, Any], ...] = (),
    **rules: Any,
) -> Plan:
    """Of hosts, with other nodes of the inventory besides."""
    nodes = [each.node for each in looks if each.node] + list(others)
    fleet = Fleet.of(nodes, {row["metadata"]["name"]: 0 for row in nodes}, STAMPED)
    return make(looks, fleet, replace(RULES, **rules), replace(ASKED, reboots=True), budgets, TABLES)


def waves(of: Plan) -> dict[str, int | None]:
    return {row.name: row.wave for row in of.rows}


def fleet_of(count: int) -> list[Look]:
    return [host(node(f"gpu-{number}")) for number in range(1, count + 1)]


# --- order and waves -------------------------------------------------------------------------------------------------


def test_canaries_go_first_then_as_many_as_the_budget_allows() -> None:
    found = plan(*fleet_of(6), max_unavailable="50%")
    assert waves(found) == {"gpu-1": 1, "gpu-2": 2, "gpu-3": 2, "gpu-4": 2, "gpu-5": 3, "gpu-6": 3}
    assert found.queue == tuple(f"gpu-{number}" for number in range(1, 7))
    assert found.seconds == 3 * Timing().node_s + RULES.soak_s


def test_the_plan_says_who_compiles_where_one_node_does_for_all() -> None:
    def of(name: str, kernel: str, **more: Any) -> Look:
        raw = healthy_record()
        raw["host"].update(kernel=kernel, architecture="x86_64", os_id="debian", os_version="12")
        return host(node(name), raw=raw, **more)

    once = NodeWanted(name="gpu", driver=Driver(build="once_per_kernel"))
    first, other, last = (of(f"gpu-{n}", kernel, wanted=once) for n, kernel in enumerate("aba", start=1))
    found = plan(first, other, last, max_unavailable="100%")
    assert [row.reason for row in found.rows] == [
        "compiles the modules, unless they are kept already",
        "compiles the modules, unless they are kept already",
        "takes the modules of 'gpu-1'",
    ]
    assert "takes the modules of 'gpu-1'" in "\n".join(lines(found))
    # Elsewhere every node compiles for itself, of which nobody needs to be told.
    assert [row.reason for row in plan(of("gpu-1", "a"), of("gpu-2", "a")).rows] == ["", ""]


def test_without_a_word_about_the_budget_one_node_goes_after_another() -> None:
    assert list(waves(plan(*fleet_of(3))).values()) == [1, 2, 3]


def test_a_node_that_is_out_takes_room() -> None:
    down = node("gpu-9", ready=False)
    found = plan(*fleet_of(4), others=(down,), max_unavailable="8")
    assert list(waves(found).values()) == [1, 2, 3, 4]


def test_a_node_without_room_in_the_budget_is_said_to_wait() -> None:
    found = plan(*fleet_of(2), others=(node("gpu-9", ready=False),))
    assert waves(found) == {"gpu-1": None, "gpu-2": None}
    assert "has to wait: 4 of 4 GPUs" in found.rows[0].reason
    assert "'gpu-9' (not Ready)" in found.rows[0].reason
    assert "canary 'gpu-1' is first" in found.rows[1].reason
    assert found.would_change


def test_half_done_nodes_go_first_and_those_that_stay_come_last() -> None:
    held = host(node("gpu-1", labels={"gpusmith.io/hold": "1"}))
    half = host(node("gpu-3", cordoned=True, entry=entry(State.CHANGING, cordoned=True)))
    found = plan(held, host(node("gpu-2")), half, host(node("gpu-4")))
    assert [(row.name, str(row.action), row.wave) for row in found.rows] == [
        ("gpu-3", "resume", 1), ("gpu-2", "upgrade", 2), ("gpu-4", "upgrade", 3), ("gpu-1", "skip", None),
    ]  # fmt: skip


def test_models_have_waves_of_their_own_budgets() -> None:
    t4 = [host(node(f"t4-{number}", 1, product="Tesla-T4", kind="t4")) for number in (1, 2)]
    found = plan(*fleet_of(2), *t4, canaries=0)
    assert waves(found) == {"gpu-1": 1, "gpu-2": 2, "t4-1": 1, "t4-2": 2}


def test_a_reboot_makes_its_wave_longer() -> None:
    found = plan(host(node("gpu-1"), kept=["nvidia_drm"]), canaries=0)
    assert found.seconds == Timing().node_s + Timing().reboot_s


# --- refusals --------------------------------------------------------------------------------------------------------


def test_a_budget_below_a_node_refuses_that_node_by_name() -> None:
    found = plan(host(node("gpu-1", 8)), host(node("gpu-2", 4)), max_unavailable="4")
    assert {row.name: row.action for row in found.rows} == {"gpu-1": Action.REFUSE, "gpu-2": Action.UPGRADE}
    assert list(found.refused) == ["gpu-1"]
    assert not found.would_change


def test_a_half_done_node_is_finished_in_a_budget_below_it() -> None:
    half = host(node("gpu-1", 8, entry=entry(State.CHANGING)))
    assert plan(half, max_unavailable="4").rows[0].action is Action.RESUME
    assert plan(half, max_unavailable="some").rows[0].action is Action.REFUSE


def test_nothing_to_do_is_no_change() -> None:
    found = plan(host(node("gpu-1", cordoned=True)))
    assert not found.would_change
    assert found.queue == ()
    assert found.seconds == 0


# --- what is told ----------------------------------------------------------------------------------------------------


def told() -> Plan:
    """A plan with something of everything."""
    busy = host(
        node("gpu-1"),
        pods=[pod(), pod("alone", 1, None)],
        users=[Process(None, "process 7 'python3' (user 'alice', no unit) with /dev/nvidia0")],
        kept=["nvidia_drm"],
    )
    return plan(
        busy,
        host(node("gpu-2")),
        host(node("gpu-3", cordoned=True)),
        host(node("gpu-4"), raw=None),
        budgets=(budget({"matchLabels": {"app": "train"}}, 0),),
    )


def test_the_plan_as_json() -> None:
    data = json.loads(json.dumps(to_json(told())))
    assert data["schema"] == SCHEMA
    assert data["target"] == NEW
    assert data["would_change"] is False
    first = data["nodes"][0]
    assert {key: first[key] for key in ("name", "from", "action", "reason", "wave", "gpus")} == {
        "name": "gpu-1", "from": OLD, "action": "upgrade", "reason": "has to wait: 4 of 4 GPUs of model"
        f" '{H100}' that may be out are: 'gpu-3' (cordoned)", "wave": None, "gpus": 4,
    }  # fmt: skip
    assert first["pods"] == [
        {"pod": "team/train-0", "owner": "Job/train", "gpus": 2, "budgets": {"serve": 0}, "devices": []},
        {"pod": "team/alone", "owner": "", "gpus": 1, "budgets": {"serve": 0}, "devices": []},
    ]
    assert first["holders"] == ["process 7 'python3' (user 'alice', no unit) with /dev/nvidia0"]
    assert [row["action"] for row in data["nodes"]] == ["upgrade", "upgrade", "skip", "refuse"]
    assert data["budget"]["models"][H100] == {"gpus": 16, "limit": 4, "out": {"gpu-3": "cordoned"}}
    assert [row["node"] for row in data["refused"]] == ["gpu-4"]


def test_the_plan_for_a_person() -> None:
    text = lines(told())
    assert text[0].split() == ["wave", "node", "action", "from", "to", "GPUs", "why"]
    assert text[1].split()[:6] == ["-", "gpu-1", "upgrade", OLD, NEW, "4"]
    whole = "\n".join(text)
    for words in (
        "somebody else cordoned it",
        "4 of 16 GPUs may be out; the plan takes 0 at once; out now: 'gpu-3' (cordoned)",
        "Pod on gpu-1: 'team/train-0' (Job/train): 2 GPUs, PodDisruptionBudget 'serve' allows 0 evictions now",
        "'team/alone' (no owner): 1 GPU,",
        "Without a pod on gpu-1: process 7",
        "Reboot of gpu-1: the kernel itself uses 'nvidia_drm'",
        "1 of 4 hosts cannot be worked on:",
        "gpu-4 | connection",
    ):
        assert words in whole
    assert len({line.index(NEW) for line in text[1:5]}) == 1


def test_the_estimate_says_what_it_rests_on() -> None:
    text = lines(plan(*fleet_of(2)))
    assert "the plan takes 4 at once." in text[-2]
    assert "the plan takes 12 at once." in lines(plan(*fleet_of(6), max_unavailable="50%"))[-2]
    assert text[-1].startswith(
        "About 35 min in 2 waves at the most, by 15 min a node, 5 min in which canaries are watched;"
    )


# --- whatever the fleet is -------------------------------------------------------------------------------------------


@given(
    sizes=st.lists(st.sampled_from([1, 4, 8]), min_size=1, max_size=7),
    out=st.sets(st.integers(0, 6)),
    text=st.sampled_from(["", "1", "4", "8", "13", "25%", "50%", "100%"]),
    canaries=st.integers(0, 3),
)
def test_no_wave_takes_more_than_the_budget_and_every_node_has_its_place(
    sizes: list[int], out: set[int], text: str, canaries: int
) -> None:
    rows = [node(f"gpu-{index}", size, cordoned=index in out) for index, size in enumerate(sizes)]
    found = plan(*map(host, rows), max_unavailable=text, canaries=canaries)
    most = limit(text, sum(sizes), max(sizes))
    assert isinstance(most, int)
    lost = sum(size for index, size in enumerate(sizes) if index in out)
    for number in {row.wave for row in found.rows} - {None}:
        assert sum(row.gpus for row in found.rows if row.wave == number) + lost <= most
    for row in found.rows:
        assert row.goes == (row.name not in found.refused and row.action is not Action.SKIP)
        assert row.wave or row.reason
    if canaries and not found.refused:
        assert sum(row.wave == 1 for row in found.rows) <= canaries


@pytest.mark.parametrize("count", [60])
def test_a_large_fleet_is_planned_at_once(count: int) -> None:
    assert max(row.wave or 0 for row in plan(*fleet_of(count)).rows) == count
