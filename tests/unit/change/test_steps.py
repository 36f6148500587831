"""One node's upgrade, killed around every effect and with every fault: it ends in the same states."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusmith.change import ledger as ledgers
from gpusmith.change.ledger import FAILED, Ledger, State
from gpusmith.change.outcome import Outcome, Result
from gpusmith.change.protocol import ChangeFailed, Fenced, InUse
from gpusmith.change.steps import ATTEMPTS, FRESH_S, NodeChange
from gpusmith.errors import GpusmithError, ToolError
from gpusmith.names import HOLD, OPERANDS_ON, OPERANDS_PAUSED, PREVIOUS_DRIVER, SENTINEL_LABEL
from tests.unit.change.world import NEW, OLD, Killed, World, to_the_end

BAD = ("install", "load", "compare", "validate")
KINDS = ("before", "within", "after", "error", "conflict")


def as_before_or_better(world: World) -> None:
    """What every end has in common, but for a node that is stuck."""
    assert not world.wrong, world.wrong
    assert not world.cordoned
    assert SENTINEL_LABEL not in world.object["metadata"]["labels"], (
        "NVSentinel does not look after it any more"
    )
    assert world.label == OPERANDS_ON
    assert world.packages == world.loaded == world.validated
    assert world.said
    assert world.running
    assert world.unit
    assert not world.blocked


def effects_of(world: World) -> int:
    """How many there are without trouble."""
    to_the_end(world)
    return world.effects


def _did(world: World) -> list[str]:
    to_the_end(world)
    return world.did


# --- the ways it can end -------------------------------------------------------------------------------------------


def test_a_good_version_is_installed_and_the_one_before_remembered() -> None:
    world = World(job_ends=3, users_end=2)
    assert world.run() == Outcome(Result.UPGRADED)
    as_before_or_better(world)
    assert world.packages == NEW
    assert world.entry is not None
    assert world.entry.state is State.DONE
    previous = json.loads(world.object["metadata"]["annotations"][PREVIOUS_DRIVER])
    assert previous["version"] == OLD


@pytest.mark.parametrize("step", BAD)
def test_a_bad_version_is_rolled_back_from_the_folder(step: str) -> None:
    world = World(bad={NEW: step})
    found = world.run()
    assert found.result is Result.ROLLED_BACK
    as_before_or_better(world)
    assert world.packages == OLD
    assert PREVIOUS_DRIVER not in world.object["metadata"]["annotations"]


@pytest.mark.parametrize("old", ["compare", "validate"])
@pytest.mark.parametrize("step", BAD)
def test_a_node_that_no_version_drives_stays_cordoned_and_says_both_reasons(step: str, old: str) -> None:
    world = World(bad={NEW: step, OLD: old})
    found = world.run()
    assert found.result is Result.STUCK
    assert OLD in found.reason
    assert world.cordoned
    assert not world.said
    assert not world.wrong, world.wrong


def test_a_stuck_node_that_is_tried_again_is_no_failure_of_the_new_run_meanwhile() -> None:
    """Failures of a run halt it: the other nodes would be turned away because of what an earlier run left."""
    world = World(bad={NEW: "load", OLD: "load"})
    world.run(1)
    assert world.entry is not None
    first = world.entry.run
    world.bad = {}
    seen: list[Ledger | None] = []
    patch = world._patch

    def write(body: Mapping[str, Any]) -> None:
        patch(body)
        seen.append(world.entry)

    world._patch = write  # type: ignore[method-assign]
    assert world.run(2).result is Result.UPGRADED
    assert seen
    assert not [entry for entry in seen if entry and entry.run != first and entry.state in FAILED]


@pytest.mark.parametrize("who", ["job_ends", "users_end"])
def test_who_never_lets_go_keeps_the_node(who: str) -> None:
    world = World(**{who: None})  # type: ignore[arg-type]
    found = world.run()
    assert found.result is Result.RELEASED
    assert "somebody" in found.reason
    as_before_or_better(world)
    assert world.packages == OLD
    assert "unload" not in world.did


def test_nobody_is_evicted_while_a_process_without_a_pod_keeps_the_node() -> None:
    world = World(evicts=True, strangers_end=None)
    found = world.run()
    assert found.result is Result.RELEASED
    assert "no process without a pod" in found.reason
    assert "holders" not in world.did
    as_before_or_better(world)
    world = World(evicts=True, strangers_end=2)
    assert world.run() == Outcome(Result.UPGRADED)


def test_a_node_whose_turn_comes_late_is_looked_at_again() -> None:
    world = World(room_in_s=2.5 * FRESH_S)
    assert world.run() == Outcome(Result.UPGRADED)
    # Once before it waits, and once when the budget has room: not all the time, beside all others that wait.
    assert (world.did.count("precheck"), world.did.count("snapshot")) == (2, 2)
    assert world.time >= world.room_in_s


def test_trouble_while_it_is_looked_at_again_leaves_no_node_out(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(room_in_s=2.5 * FRESH_S)
    precheck, calls = world.precheck, iter(range(9))

    def away(version: str) -> None:
        if next(calls) in (1, 2):
            raise ToolError("the suite could not be started")
        precheck(version)

    monkeypatch.setattr(world, "precheck", away)
    assert world.run() == Outcome(Result.UPGRADED)
    assert next(calls) == 4


def test_trouble_that_does_not_end_leaves_the_node_out(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(room_in_s=2.5 * FRESH_S)
    precheck = world.precheck

    def away(version: str) -> None:
        if world.time > FRESH_S:
            raise ToolError("the suite could not be started")
        precheck(version)

    monkeypatch.setattr(world, "precheck", away)
    found = world.run()
    assert found == Outcome(Result.UNTOUCHED, "the suite could not be started")
    assert world.time >= 3.5 * FRESH_S


def test_a_node_that_broke_while_it_waited_is_untouched() -> None:
    world = World(room_in_s=2.5 * FRESH_S)
    sleep = world.sleep

    def broken(seconds: float) -> None:
        sleep(seconds)
        world.sick = frozenset({OLD})

    world.sleep = broken  # type: ignore[method-assign]
    found = world.run()
    assert found.result is Result.UNTOUCHED
    assert "broken before" in found.reason
    as_before_or_better(world)
    assert world.entry is None


def test_a_pod_that_tolerates_everything_and_comes_late_keeps_the_node() -> None:
    world = World()

    def come(value: str) -> None:
        world.job_ends = None if value == OPERANDS_PAUSED else world.job_ends

    world.on_operands = come  # type: ignore[method-assign]
    found = world.run()
    assert found.result is Result.RELEASED
    assert "unload" not in world.did
    as_before_or_better(world)


def test_a_pod_that_comes_during_validation_is_waited_for_before_the_way_back() -> None:
    world = World(bad={NEW: "validate"})

    def come(value: str) -> None:
        if world.loaded == NEW:
            world.job_ends = 3

    world.on_operands = come  # type: ignore[method-assign]
    assert world.run().result is Result.ROLLED_BACK
    as_before_or_better(world)


def test_who_uses_the_driver_after_a_killed_unload_gets_its_services_back() -> None:
    at = [*_did(World())].index("unload") + 1
    world = World(trouble={at: "within"})
    with pytest.raises(Killed):
        world.run()
    assert not world.running
    world.users_end = None
    assert world.run(2).result is Result.RELEASED
    as_before_or_better(world)


def test_who_came_while_packages_were_replaced_is_waited_for_by_the_next_run() -> None:
    """Nothing can be given back any more, and the driver is not to blame, however often that happens."""
    world = World()
    load = world.start

    def in_use(version: str, units: Sequence[str]) -> None:
        raise InUse("'ann' uses the driver")

    world.start = in_use  # type: ignore[method-assign]
    for number in range(1, ATTEMPTS + 3):
        found = world.run(number)
        assert found.result is Result.UNFINISHED
        assert "'ann' uses the driver" in found.reason
        assert world.cordoned
    world.start = load  # type: ignore[method-assign]
    assert world.run(ATTEMPTS + 3).result is Result.UPGRADED
    as_before_or_better(world)


def test_who_came_on_the_way_back_is_waited_for_by_the_next_run() -> None:
    world = World(bad={NEW: "validate"})
    load = world.start

    def in_use(version: str, units: Sequence[str]) -> None:
        if version == OLD:
            raise InUse("'ann' uses the driver")
        load(version, units)

    world.start = in_use  # type: ignore[method-assign]
    found = world.run()
    assert found.result is Result.UNFINISHED
    assert "'ann' uses the driver (state 'rolling_back')" in found.reason
    assert world.cordoned
    world.start = load  # type: ignore[method-assign]
    assert world.run(2).result is Result.ROLLED_BACK
    as_before_or_better(world)


def test_a_driver_that_kills_the_machine_each_time_goes_back() -> None:
    world = World(bad={NEW: "panic"})
    found = to_the_end(world)
    assert found is not None
    assert found.result is Result.ROLLED_BACK
    assert "2 times" in found.reason
    as_before_or_better(world)
    assert world.did.count("load") == 3


def test_labels_of_feature_discovery_that_come_late_are_waited_for() -> None:
    """As after a restart of the API server: the suite compares them with the driver."""
    world = World(labelled_in=3)
    assert world.run() == Outcome(Result.UPGRADED)
    assert world.did.index("validate") > max(
        at for at, name in enumerate(world.did) if name == "described_driver"
    )
    as_before_or_better(world)


def test_labels_of_feature_discovery_that_do_not_come_are_no_fault_of_the_driver() -> None:
    world = World(labelled_in=None)
    found = world.run()
    assert found.result is Result.UNFINISHED
    assert f"the label of feature discovery for {NEW}" in found.reason
    assert f"last seen: '{OLD}'" in found.reason
    assert (world.packages, world.loaded, world.cordoned) == (NEW, NEW, True)
    world.labelled_in = 0
    assert world.run(2) == Outcome(Result.UPGRADED)
    as_before_or_better(world)


def test_a_node_without_such_a_label_waits_for_none() -> None:
    world = World(labelled_in=None, described="")
    assert world.run() == Outcome(Result.UPGRADED)


def test_a_version_that_is_nowhere_changes_nothing() -> None:
    world = World(offered={OLD})
    assert world.run().result is Result.UNTOUCHED
    assert world.entry is None
    assert "admit" not in world.did


def test_a_node_that_is_not_admitted_is_untouched() -> None:
    world = World(hold=True)
    assert world.run() == Outcome(Result.UNTOUCHED, "held")
    assert world.entry is None


@pytest.mark.parametrize("kind", ["annotations", "labels"])
def test_a_hold_that_comes_while_it_waits_for_a_job_is_obeyed(kind: str) -> None:
    world = World(job_ends=5)

    def admit_then_hold(entry: ledgers.Ledger, admit=world.admit) -> str:  # type: ignore[no-untyped-def]
        why: str = admit(entry)
        world.object["metadata"][kind][HOLD] = "no"
        return why

    world.admit = admit_then_hold  # type: ignore[method-assign]
    found = world.run()
    assert found.result is Result.RELEASED
    assert HOLD in found.reason
    as_before_or_better(world)


def test_a_node_that_somebody_uncordons_while_it_waits_is_released() -> None:
    world = World(job_ends=5)

    def admit_then_uncordon(entry: ledgers.Ledger, admit=world.admit) -> str:  # type: ignore[no-untyped-def]
        why: str = admit(entry)
        world.object["spec"] = {}
        return why

    world.admit = admit_then_uncordon  # type: ignore[method-assign]
    found = world.run()
    assert found.result is Result.RELEASED
    assert "uncordoned" in found.reason
    assert "unload" not in world.did


def test_a_node_that_somebody_uncordons_later_is_cordoned_until_it_is_validated() -> None:
    world = World()

    def compare_then_uncordon(before, compare=world.compare) -> None:  # type: ignore[no-untyped-def]
        compare(before)
        world.object["spec"] = {}

    world.compare = compare_then_uncordon  # type: ignore[method-assign]
    assert world.run().result is Result.UPGRADED
    as_before_or_better(world)


def test_an_admission_whose_answer_got_lost_is_unfinished_and_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    admit = world.admit

    def lost(entry: Ledger) -> str:
        admit(entry)
        raise ToolError("The API server does not answer.")

    monkeypatch.setattr(world, "admit", lost)
    assert world.run().result is Result.UNFINISHED
    assert world.cordoned
    monkeypatch.undo()
    assert world.run(2).result is Result.UPGRADED


def test_an_admission_that_was_not_made_leaves_the_node_untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()

    def none(entry: Ledger) -> str:
        raise ToolError("The API server does not answer.")

    monkeypatch.setattr(world, "admit", none)
    assert world.run().result is Result.UNTOUCHED
    assert not world.cordoned


@pytest.mark.parametrize("error", [ToolError("no answer"), ChangeFailed("CUDA does not start")])
def test_nobody_uncordons_a_driver_that_is_not_validated(
    monkeypatch: pytest.MonkeyPatch, error: GpusmithError
) -> None:
    world = World()
    validate = world.prove

    def uncordoned(version: str) -> None:
        if version == OLD:
            return validate(version)
        world.object["spec"] = {}
        raise error

    monkeypatch.setattr(world, "prove", uncordoned)
    found = world.run()
    assert not world.wrong, world.wrong
    if isinstance(error, ChangeFailed):
        assert found.result is Result.ROLLED_BACK
    else:
        assert found.result is Result.UNFINISHED
        assert world.cordoned


def test_a_node_that_is_given_back_gets_its_settings_back(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()

    def used(units: Sequence[str]) -> None:
        raise InUse("the kernel keeps a module")

    monkeypatch.setattr(world, "stop", used)
    assert world.run().result is Result.RELEASED
    assert "compare" in world.did
    as_before_or_better(world)


def test_a_run_that_must_not_act_any_more_does_nothing_more() -> None:
    world = World()
    calls = 0

    def fence() -> None:
        nonlocal calls
        calls += 1
        if calls > 12:
            raise Fenced("another run has it")

    change = NodeChange(
        "gpu-1", "run-1", NEW, OLD, world, world, fence, lambda *_: None, gpus=4, sleep=world.sleep, clock=lambda: world.time
    )  # fmt: skip
    with pytest.raises(Fenced):
        change.carry_out()
    before = world.effects
    with pytest.raises(Fenced):
        change.carry_out()
    # It may look; it changes nothing.
    assert set(world.did[before:]) <= {"node"}


def test_the_ledger_of_another_run_stops_this_one() -> None:
    world = World(job_ends=3)

    def admit_then_lose(entry: ledgers.Ledger, admit=world.admit) -> str:  # type: ignore[no-untyped-def]
        why: str = admit(entry)
        world.object["metadata"]["annotations"].update(
            ledgers.patch(world.object, ledgers.Ledger("other", NEW, OLD, State.ADMITTED, "now", True))[
                "metadata"
            ]["annotations"]
        )
        return why

    world.admit = admit_then_lose  # type: ignore[method-assign]
    with pytest.raises(Fenced, match="other"):
        world.run()
    assert world.cordoned


# --- back by hand --------------------------------------------------------------------------------------------------


def test_back_by_hand_is_an_upgrade_to_the_version_before_without_a_repository() -> None:
    world = World()
    world.run()
    world.offered = set()
    assert world.run(2, target=OLD, rollback=True).result is Result.UPGRADED
    as_before_or_better(world)
    assert world.packages == OLD
    # Or the next rollback would bring back what this one got rid of.
    assert PREVIOUS_DRIVER not in world.object["metadata"]["annotations"]


@pytest.mark.parametrize("step", range(1, 60))
def test_a_rollback_that_is_killed_goes_on_in_its_direction(step: int) -> None:
    world = World()
    world.run()
    world.offered = set()
    world.trouble = {world.effects + step: "after"}
    with contextlib.suppress(Killed):
        world.run(2, target=OLD, rollback=True)
    entry = world.entry
    assert entry is not None
    if not entry.finished:
        assert entry.rollback
        world.run(3, target=entry.target, rollback=True)
    elif world.packages == NEW:  # killed before it was admitted
        world.run(3, target=OLD, rollback=True)
    as_before_or_better(world)
    assert world.packages == OLD


def test_a_rollback_goes_to_nodes_that_the_driver_broke_and_an_upgrade_does_not() -> None:
    world = World()
    world.run()
    world.sick = frozenset({NEW})
    assert world.run(2, target=OLD).result is Result.UNTOUCHED
    assert world.packages == NEW
    assert world.run(3, target=OLD, rollback=True) == Outcome(Result.UPGRADED)
    as_before_or_better(world)
    assert world.packages == OLD


@pytest.mark.parametrize("kind", ["before", "within", "after"])
@pytest.mark.parametrize("step", range(1, 60))
def test_a_node_that_somebody_else_cordoned_goes_back_and_stays_cordoned(step: int, kind: str) -> None:
    """He may have done so because of the driver; what else he meant by it nobody knows."""
    world = World()
    world.run()
    world.object["spec"] = {"unschedulable": True}
    world.trouble = {world.effects + step: kind}
    found = None
    with contextlib.suppress(Killed):
        found = world.run(2, target=OLD, rollback=True)
    entry = world.entry
    assert entry is not None
    if found is None and (not entry.finished or world.packages == NEW):
        found = world.run(3, target=OLD, rollback=True)
    assert not world.wrong, world.wrong
    assert world.packages == world.loaded == world.validated == OLD
    assert world.cordoned
    assert found is None or (found.result, "stays cordoned" in found.reason) == (Result.UPGRADED, True)


def test_who_takes_his_cordon_off_during_a_rollback_gets_the_node_once_it_is_validated() -> None:
    world = World()
    world.run()
    world.object["spec"] = {"unschedulable": True}

    def compare_then_uncordon(before, compare=world.compare) -> None:  # type: ignore[no-untyped-def]
        compare(before)
        world.object["spec"] = {}

    world.compare = compare_then_uncordon  # type: ignore[method-assign]
    assert world.run(2, target=OLD, rollback=True) == Outcome(Result.UPGRADED)
    as_before_or_better(world)


def test_a_rollback_knows_what_the_gpus_were_before_the_driver_that_broke_them() -> None:
    rows = {f"GPU-{n}": {"vbios": "96"} for n in range(2)}
    world = World()
    world.gpus = {"gpus": rows}
    world.run()
    world.gpus = {"gpus": {"GPU-0": rows["GPU-0"]}}
    world.job_ends = None
    assert world.run(2, target=OLD, rollback=True).result is Result.RELEASED
    world.job_ends = 0
    # Neither is it forgotten by a rollback that came to nothing.
    assert world.run(3, target=OLD, rollback=True).result is Result.UPGRADED
    assert world.entry is not None
    assert world.entry.before == {"gpus": {"GPU-0": rows["GPU-0"]}, "returning": {"GPU-1": rows["GPU-1"]}}


@pytest.mark.parametrize("step", range(1, 60))
def test_an_unfinished_upgrade_can_be_called_back_wherever_it_was_killed(step: int) -> None:
    world = World(trouble={step: "after"})
    try:
        world.run()
    except Killed:
        world.offered = set()
        found = world.run(2, back=True)
        entry = world.entry
        assert entry is None or entry.finished
        as_before_or_better(world)
        if found.result is not Result.UNTOUCHED:
            assert world.packages == OLD


# --- kills and faults ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", ["", *BAD])
def test_one_trouble_at_any_effect_changes_nothing_about_the_end(kind: str, bad: str) -> None:
    faulty = {NEW: bad} if bad else {}
    count = effects_of(World(bad=faulty, job_ends=2, users_end=1))
    for at in range(1, count + 1):
        world = World(bad=faulty, job_ends=2, users_end=1, trouble={at: kind})
        found = to_the_end(world)
        as_before_or_better(world)
        assert found is not None
        entry = world.entry
        if kind == "error" and (entry is None or entry.state is State.RELEASED):
            # Before anything was changed, trouble gives the node back.
            assert world.packages == OLD, at
            continue
        assert world.packages == (OLD if bad else NEW), (at, found)


@settings(max_examples=300, deadline=None)
@given(
    trouble=st.dictionaries(st.integers(1, 160), st.sampled_from(KINDS), max_size=5),
    bad=st.sampled_from(["", *BAD]),
    old_bad=st.sampled_from(["", "", "", "validate", "load"]),
    job=st.sampled_from([0, 1, 4, None]),
    users=st.sampled_from([0, 1, None]),
)
def test_any_troubles_end_in_a_state_that_is_allowed(
    trouble: dict[int, str], bad: str, old_bad: str, job: int | None, users: int | None
) -> None:
    faulty = {**({NEW: bad} if bad else {}), **({OLD: old_bad} if old_bad else {})}
    world = World(bad=faulty, job_ends=job, users_end=users, trouble=dict(trouble))
    found = to_the_end(world)
    assert found is not None
    assert not world.wrong, world.wrong
    entry = world.entry
    if entry is not None and entry.state is State.STUCK:
        # The version before did not work either, and the node takes no pods.
        assert old_bad
        assert world.cordoned
        return
    as_before_or_better(world)
    if job is None or users is None:
        assert world.packages == OLD
    if bad:
        assert world.packages == OLD


def test_gpus_of_the_last_plugin_are_withdrawn_before_those_of_the_next_are_waited_for() -> None:
    world = World()
    world.run()
    assert "allocatable" in world.did[: world.did.index("unload")]
