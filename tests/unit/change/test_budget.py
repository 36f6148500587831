"""How many GPUs may be out, and which node goes next."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusmith.change.budget import Admission, Answer, Fleet, Rules, admissible, admission, limit, limits
from gpusmith.change.ledger import FAILED, UNTOUCHED, State
from gpusmith.errors import GpusmithError, Refusal
from gpusmith.names import LAYOUT_LABEL, PRODUCT_LABEL, SHARE_RESOURCE, UPGRADE
from gpusmith.upgrade.hosts import STAMPED
from tests.unit.upgrade.nodes import H100, NEW, NOW, OLD, entry, node

RULES = Rules(run="r1", target=NEW)
AT = dt.datetime.fromisoformat(NOW)
UNFINISHED = sorted(set(State) - {State.DONE, State.ROLLED_BACK, State.RELEASED})


def fleet(*nodes: dict[str, Any], **sizes: int) -> Fleet:
    names = {row["metadata"]["name"]: 0 for row in nodes} | sizes
    return Fleet.of(nodes, names, STAMPED)


# --- who is out ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"cordoned": True}, "cordoned"),
        ({"ready": False}, "not Ready"),
        ({"tainted": True}, "not validated"),
        ({"allocatable": 3}, "3 of 4 GPUs offered"),
        ({"allocatable": 0}, "0 of 4 GPUs offered"),
        ({"entry": entry(State.CHANGING)}, "upgrade 'changing'"),
        # A controller that waits for the proof must not keep the upgrade waiting which brings it.
        ({"tainted": "readiness.k8s.io/gpus-are-proved"}, ""),
    ],
)
def test_what_takes_a_node_out_is_named(changes: dict[str, Any], why: str) -> None:
    assert fleet(node("gpu-1", **changes))["gpu-1"].out == why
    assert fleet(node("gpu-1"))["gpu-1"].out == ""


@pytest.mark.parametrize("state", State)
def test_a_node_is_out_until_its_upgrade_is_finished(state: State) -> None:
    assert bool(fleet(node("gpu-1", entry=entry(state)))["gpu-1"].out) == (state in UNFINISHED)


def test_a_ledger_that_cannot_be_read_takes_the_node_out() -> None:
    row = node("gpu-1")
    row["metadata"]["annotations"][UPGRADE] = "[]"
    assert UPGRADE in fleet(row)["gpu-1"].out


def test_a_node_without_the_resource_is_out() -> None:
    row = node("gpu-1", labels={"nvidia.com/gpu.count": "4"})
    row["status"]["allocatable"] = {}
    assert fleet(row)["gpu-1"].out == "0 of 4 GPUs offered"


def test_nodes_of_others_do_not_count() -> None:
    assert list(
        Fleet.of([node("gpu-1"), node("theirs")], dict.fromkeys(("gpu-1", "not-there"), 0), STAMPED).members
    ) == ["gpu-1"]


def test_a_node_that_hands_out_shares_counts_its_gpus() -> None:
    row = node("gpu-1", labels={LAYOUT_LABEL: "time-slicing-4", PRODUCT_LABEL: "H100-SHARED"})
    row["status"] |= {key: {SHARE_RESOURCE: "16"} for key in ("capacity", "allocatable")}
    found = Fleet.of([row], {"gpu-1": 4}, STAMPED)["gpu-1"]
    assert (found.gpus, found.offers, found.out) == (4, 4, "")
    assert found.model == "H100", "shared or not, one budget is of one model"


def test_a_node_that_hands_out_instances_counts_its_gpus() -> None:
    row = node("gpu-1", labels={LAYOUT_LABEL: "mig-2x3g.40gb"})
    row["status"] |= {key: {"nvidia.com/mig-3g.40gb": "8"} for key in ("capacity", "allocatable")}
    found = Fleet.of([row], {"gpu-1": 4}, STAMPED)["gpu-1"]
    assert (found.gpus, found.offers, found.out) == (4, 4, "")
    row["status"]["allocatable"] = {"nvidia.com/mig-3g.40gb": "5"}
    assert Fleet.of([row], {"gpu-1": 4}, STAMPED)["gpu-1"].out == "3 of 4 GPUs offered"


# --- size and model -------------------------------------------------------------------------------------------------


def test_the_size_outlives_the_device_plugin() -> None:
    """The kubelet sets the capacity to 0 some minutes after a device plugin left."""
    gone: dict[str, Any] = {"gpus": 0, "product": ""}
    assert fleet(node("a", **gone, labels={"nvidia.com/gpu.count": "8"}))["a"].gpus == 8
    assert fleet(node("a", **gone, entry=entry(State.CHANGING, gpus=8)))["a"].gpus == 8
    assert fleet(node("a", **gone), a=8)["a"].gpus == 8
    assert fleet(node("a", **gone), a=8)["a"].out == "0 of 8 GPUs offered"


def test_the_model_is_that_of_feature_discovery_or_what_comes_next() -> None:
    assert fleet(node("a"))["a"].model == H100
    assert fleet(node("a", product="", entry=entry(State.QUIET, model=H100)))["a"].model == H100
    assert fleet(node("a", product=""))["a"].model == "h100-sxm"
    assert fleet(node("a", product="", kind=""))["a"].model == "unknown"


def test_a_node_without_feature_discovery_counts_with_its_own_kind() -> None:
    """Otherwise a broken node would be of a model of its own, and nobody's budget had it."""
    assert (
        fleet(node("a"), node("b", product=""), node("c", kind="t4", product="Tesla-T4"))["b"].model == H100
    )


# --- the limit ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "gpus"),
    [("", 8), ("4", 4), (4, 4), (" 12 ", 12), ("50%", 15), ("33%", 10), ("1%", 0), ("100 %", 31)],
)
def test_the_limit_is_rounded_down(text: str, gpus: int) -> None:
    assert limit(text, 31, 8) == gpus


@pytest.mark.parametrize("text", ["0", "-4", "four", "4.5", "101%", "0%", "%", "50%%", True, "1e3"])
def test_what_is_no_limit_is_refused_by_name(text: str) -> None:
    found = limit(text, 31, 8)
    assert isinstance(found, Refusal)
    assert f"'gpu_upgrade_max_unavailable' is '{text}'" in found.message


def test_a_budget_below_a_node_is_refused_and_never_rounded_up() -> None:
    cluster = fleet(node("a", 8), node("b", 4), node("c", 1))
    refused = limits("4", cluster, ["a", "b", "c"])
    assert list(refused) == ["a"]
    assert "'4'" in refused["a"].message
    assert "8 GPUs" in refused["a"].message
    assert limits("4", cluster, ["b", "c"]) == {}
    assert sorted(limits("5%", cluster, ["a", "b", "c"])) == ["a", "b", "c"]
    assert limits("", cluster, ["a", "b", "c"]) == {}


def test_a_wrong_budget_is_said_of_every_node() -> None:
    assert sorted(limits("some", fleet(node("a"), node("b")), ["a", "b"])) == ["a", "b"]


# --- room in the budget ---------------------------------------------------------------------------------------------


def test_a_node_waits_while_its_model_has_no_room() -> None:
    cluster = fleet(node("gpu-1"), node("gpu-2", cordoned=True))
    assert (
        admissible(cluster, "gpu-1", 4)
        == f"4 of 4 GPUs of model '{H100}' that may be out are: 'gpu-2' (cordoned)"
    )
    assert admissible(cluster, "gpu-1", 8) == ""
    assert "'gpu-1' has 4" in admissible(cluster, "gpu-1", 7)


def test_other_models_have_budgets_of_their_own() -> None:
    t4 = node("gpu-2", cordoned=True, product="Tesla-T4")
    assert admissible(fleet(node("gpu-1"), t4), "gpu-1", 4) == ""


def test_a_node_that_tells_no_model_is_taken_for_none_of_the_others() -> None:
    """Without 'gpusmith_gpu_model' there is no kind by which its model could be told from those of other nodes."""
    there = [
        node("a", kind=""),
        node("new", kind="", product="", tainted=True),
        node("b", kind="", product="NVIDIA-L40S"),
    ]
    for rows in (there, there[::-1]):
        found = fleet(*rows)
        assert found["new"].model == "unknown"
        # It may be of either.
        assert all("'new' (not validated)" in admissible(found, name, 4) for name in ("a", "b"))
        assert admissible(found, "a", 8) == ""


def test_a_node_that_is_out_is_not_counted_twice() -> None:
    assert admissible(fleet(node("gpu-1", tainted=True)), "gpu-1", 4) == ""


def test_an_upgrade_that_was_begun_has_its_place() -> None:
    """It was admitted before; who cordoned another node since does not keep it half done."""
    begun = node("gpu-1", entry=entry(State.CHANGING))
    assert admissible(fleet(begun, node("gpu-2", cordoned=True)), "gpu-1", 4) == ""


@pytest.mark.parametrize("out", [{"cordoned": True}, {"ready": False}, {"tainted": True}, {"allocatable": 0}])
def test_who_goes_back_and_serves_nobody_takes_no_room(out: dict[str, Any]) -> None:
    """Or the nodes that a driver broke would keep each other from being repaired."""
    cluster = fleet(node("gpu-1", **out), node("gpu-2", **out), node("gpu-3"))
    assert admissible(cluster, "gpu-1", 4, rollback=True) == ""
    assert admissible(cluster, "gpu-1", 4) != ""
    # One that serves has its jobs, and waits until there is room.
    assert "'gpu-1'" in admissible(cluster, "gpu-3", 4, rollback=True)


def test_who_goes_back_and_has_lost_some_gpus_gives_the_others_away_within_the_budget() -> None:
    broken = [node(f"gpu-{n}", allocatable=3) for n in (1, 2)]
    assert admissible(fleet(*broken), "gpu-1", 4, rollback=True) == ""
    gone = node("gpu-2", entry=entry(State.DRAINING))
    assert "'gpu-2'" in admissible(fleet(broken[0], gone), "gpu-1", 4, rollback=True)
    assert admissible(fleet(broken[0], gone), "gpu-1", 8, rollback=True) == ""


def test_a_node_of_unknown_size_is_never_admitted() -> None:
    assert "how many GPUs" in admissible(fleet(node("gpu-1", 0)), "gpu-1", 4)


# --- canaries, soak and failures ------------------------------------------------------------------------------------

QUEUE = ["gpu-1", "gpu-2", "gpu-3"]
DONE_AT = "2026-11-22T11:50:00Z"


def ask(name: str, rules: Rules = RULES, gone: tuple[str, ...] = (), **changes: dict[str, Any]) -> Admission:
    """For one of three nodes of 4 GPUs, with room for all."""
    nodes = [node(each, **changes.get(each.replace("-", "_"), {})) for each in QUEUE]
    return admission(fleet(*nodes), name, QUEUE, replace(rules, max_unavailable="100%"), AT, gone)


def done(since: str = DONE_AT, **more: Any) -> dict[str, Any]:
    return {"entry": entry(State.DONE, since=since), "stamp": NEW, **more}


def test_only_canaries_go_first() -> None:
    assert ask("gpu-1") == Admission(Answer.GO)
    assert ask("gpu-2") == Admission(Answer.WAIT, "canary 'gpu-1' is first")
    assert ask("gpu-2", replace(RULES, canaries=2)).answer is Answer.GO
    assert ask("gpu-3", replace(RULES, canaries=0)).answer is Answer.GO


def test_the_others_follow_when_the_canary_has_soaked() -> None:
    assert ask("gpu-2", gpu_1=done()) == Admission(Answer.GO)
    young = ask("gpu-2", gpu_1=done("2026-11-22T11:58:00Z"))
    assert young == Admission(Answer.WAIT, "canary 'gpu-1' is watched until 2026-11-22T12:03:00Z")


def test_the_last_of_several_canaries_soaks_as_long() -> None:
    two = replace(RULES, canaries=2)
    assert ask("gpu-3", two, gpu_1=done()).answer is Answer.WAIT
    assert ask("gpu-3", two, gpu_1=done(), gpu_2=done("2026-11-22T11:58:00Z")).answer is Answer.WAIT
    assert ask("gpu-3", two, gpu_1=done(), gpu_2=done()).answer is Answer.GO


# A validation that failed in the meantime takes the stamp off.
fallen = pytest.mark.parametrize(
    "changes", [{"ready": False}, {"allocatable": 3}, {"stamp": ""}, {"stamp": OLD}, {"cordoned": True}]
)


@fallen
def test_a_canary_that_fails_while_it_is_watched_halts(changes: dict[str, Any]) -> None:
    found = ask("gpu-2", gpu_1=done() | changes)
    assert found.answer is Answer.HALT
    assert found.why.startswith("canary 'gpu-1' has failed since it was upgraded")
    two = replace(RULES, canaries=2)
    assert ask("gpu-3", two, gpu_1=done() | changes, gpu_2=done()).answer is Answer.HALT


@fallen
def test_a_canary_of_earlier_that_does_not_serve_proves_nothing(changes: dict[str, Any]) -> None:
    earlier = done() | {"entry": entry(State.DONE, run="r0", since=DONE_AT)} | changes
    assert ask("gpu-3", gpu_1=earlier) == Admission(Answer.WAIT, "canary 'gpu-2' is first")
    young = {"entry": entry(State.DONE, run="r0", since="2026-11-22T11:58:00Z")}
    assert ask("gpu-3", gpu_1=earlier | young).answer is Answer.HALT


def test_a_node_that_fails_after_the_canaries_were_watched_is_the_budgets_matter() -> None:
    assert ask("gpu-3", gpu_1=done(), gpu_2=done(ready=False)).answer is Answer.GO


def test_what_was_done_for_another_target_proves_nothing() -> None:
    other = entry(State.DONE, target="590.10.01", since=DONE_AT)
    assert ask("gpu-2", gpu_1={"entry": other, "stamp": "590.10.01"}).answer is Answer.WAIT


def test_the_canary_of_an_earlier_run_will_do() -> None:
    earlier = entry(State.DONE, run="r0", since=DONE_AT)
    assert ask("gpu-2", gpu_1={"entry": earlier, "stamp": NEW}).answer is Answer.GO


@pytest.mark.parametrize("state", sorted(FAILED))
def test_a_failed_canary_halts(state: State) -> None:
    failed = {"entry": entry(state, reason="CUDA does not start")}
    found = ask("gpu-2", replace(RULES, max_failures=5), gpu_1=failed)
    assert found.answer is Answer.HALT
    assert found.why == "canary 'gpu-1' failed (CUDA does not start)"


def test_failures_behind_the_canary_are_counted() -> None:
    failed = {"entry": entry(State.ROLLED_BACK)}
    assert ask("gpu-3", gpu_1=done(), gpu_2=failed).answer is Answer.HALT
    assert "1 of 1" in ask("gpu-3", gpu_1=done(), gpu_2=failed).why
    assert ask("gpu-3", replace(RULES, max_failures=2), gpu_1=done(), gpu_2=failed).answer is Answer.GO


def test_failures_of_earlier_runs_are_history() -> None:
    earlier = {"entry": entry(State.ROLLED_BACK, run="r0")}
    assert ask("gpu-1", gpu_1=earlier).answer is Answer.GO
    assert ask("gpu-3", gpu_1=done(), gpu_2=earlier).answer is Answer.GO


def test_what_a_rollback_brings_back_is_no_failure_of_it() -> None:
    """One run takes back the half done upgrade of one node, and the finished one of another."""
    back = replace(RULES, target=OLD, canaries=0)
    wanted = {"entry": entry(State.ROLLED_BACK, target=NEW)}
    assert ask("gpu-2", back, gpu_1=wanted).answer is Answer.GO
    assert ask("gpu-2", back, gpu_1={"entry": entry(State.STUCK, target=OLD)}).answer is Answer.HALT


def test_the_next_one_is_the_canary_if_the_first_one_never_was_free() -> None:
    released = {"entry": entry(State.RELEASED)}
    assert ask("gpu-2", gpu_1=released).answer is Answer.GO
    assert ask("gpu-3", gpu_1=released).answer is Answer.WAIT
    assert ask("gpu-2", gone=("gpu-1",)).answer is Answer.GO
    earlier = {"entry": entry(State.RELEASED, run="r0")}
    assert ask("gpu-2", gpu_1=earlier).answer is Answer.WAIT


@pytest.mark.parametrize("state", UNFINISHED)
def test_what_was_changed_is_finished_whatever_happens(state: State) -> None:
    """A node that is cordoned only is as before, and waits or is released as the others."""
    mine = {"entry": entry(state, run="r0")}
    failed = {"entry": entry(State.ROLLED_BACK)}
    assert (ask("gpu-3", gpu_1=failed, gpu_3=mine).answer is Answer.GO) == (state not in UNTOUCHED)


def test_a_node_that_left_the_cluster_keeps_nobody_waiting() -> None:
    left = fleet(node("gpu-2"), node("gpu-3"))
    assert admission(left, "gpu-2", QUEUE, RULES, AT).answer is Answer.GO
    with pytest.raises(GpusmithError, match="no node 'gpu-1'"):
        admission(left, "gpu-1", QUEUE, RULES, AT)


def test_the_budget_has_the_last_word() -> None:
    cluster = fleet(node("gpu-1", **done()), node("gpu-2", ready=False), node("gpu-3"))
    found = admission(cluster, "gpu-3", QUEUE, RULES, AT)
    assert found.answer is Answer.WAIT
    assert "'gpu-2' (not Ready)" in found.why


def test_a_budget_that_is_none_admits_nobody() -> None:
    found = admission(fleet(node("gpu-1")), "gpu-1", ["gpu-1"], replace(RULES, max_unavailable="x"), AT)
    assert found.answer is Answer.HALT


# --- whatever happens -----------------------------------------------------------------------------------------------

SIZES = st.sampled_from([1, 4, 8])
EVENTS = st.tuples(
    st.sampled_from(["ask", "ask", "ask", "finish", "fail", "give up", "break", "mend"]), st.integers(0, 9)
)


@given(
    sizes=st.lists(SIZES, min_size=1, max_size=8),
    text=st.sampled_from(["", "1", "4", "8", "9", "12", "25%", "50%", "100%"]),
    canaries=st.integers(0, 3),
    events=st.lists(EVENTS, max_size=60),
)
def test_no_sequence_takes_more_out_than_the_limit(
    sizes: list[int], text: str, canaries: int, events: list[tuple[str, int]]
) -> None:
    names = [f"gpu-{index}" for index in range(len(sizes))]
    rules = Rules(run="r1", target=NEW, max_unavailable=text, canaries=canaries, soak_s=0)
    most = limit(text, sum(sizes), max(sizes))
    assert isinstance(most, int)
    state: dict[str, Mapping[str, Any]] = {name: {} for name in names}
    ends = {"finish": State.DONE, "fail": State.STUCK, "give up": State.RELEASED}
    for event, number in events:
        name = names[number % len(names)]
        ours = state[name].get("entry")
        cluster = fleet(*(node(each, size, **state[each]) for each, size in zip(names, sizes, strict=True)))
        busy = ours is not None and not ours.finished
        if event == "ask" and not busy:
            if admission(cluster, name, names, rules, AT).answer is Answer.GO:
                taken = sum(
                    member.gpus for member in cluster.members.values() if member.out or member.name == name
                )
                assert taken <= most
                state[name] = {"entry": entry(State.ADMITTED), "cordoned": True}
        elif event in ends and busy:
            last = entry(ends[event])
            state[name] = {"entry": last, "cordoned": not last.finished, "stamp": NEW}
        elif event == "break" and not busy:
            state[name] = {**state[name], "ready": False}
        elif event == "mend":
            state[name] = {**state[name], "ready": True}
