"""Which nodes must be validated, what proves one, and what its Node object then carries."""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path
from typing import Any

import pytest

from gpusmith.cluster import stamps
from gpusmith.cluster.api import ApiRefused
from gpusmith.errors import GpusmithError, ToolError
from gpusmith.names import CONDITION, RESULTS_SCHEMA, STARTUP_TAINT
from gpusmith.names import STAMP as ANNOTATION
from gpusmith.problems import Problem
from tests.unit.cluster.conftest import Memory

FACTS = {
    "driver": "580.178.04",
    "kernel": "6.1",
    "runtime": "containerd 2.3.7",
    "simulated": True,
    "digest": "sha256:a",
}


def node(annotation: str | None = None, *taints: str) -> dict[str, Any]:
    annotations = {} if annotation is None else {ANNOTATION: annotation}
    return {
        "metadata": {"name": "gpu-1", "annotations": annotations, "resourceVersion": "7"},
        "spec": {"taints": [{"key": key, "effect": "NoSchedule"} for key in taints]},
    }


def check(target: str, outcome: str = "passed", **more: str | None) -> dict[str, Any]:
    return {"id": f"nodes.{outcome}", "target": target, "outcome": outcome, **more}


def results(
    *checks: dict[str, Any], complete: bool = True, **coverage: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "schema": RESULTS_SCHEMA,
        "run": {"complete": complete, "nodes": ["gpu-1", "gpu-2"]},
        "coverage": {"nodes": {"excluded": []}, "gpus": {"busy": [], "excluded": [], **coverage}},
        "checks": list(checks),
    }


STAMP = stamps.make_stamp(FACTS, "2026-11-21T10:00:00Z")


def cause(proof: stamps.Proof) -> str:
    assert proof.problem is not None
    return proof.problem.cause


def test_a_current_stamp_needs_no_validation_unless_asked_for() -> None:
    assert stamps.reason(node(STAMP), FACTS, "if_needed") == ""
    assert stamps.reason(node(STAMP), FACTS, "always")
    assert stamps.reason(node(), FACTS, "never") == ""


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (None, "no such node"),
        (node(), "never"),
        (node("not json"), "never"),
        (node(STAMP, STARTUP_TAINT), "taint"),
    ],
)
def test_what_asks_for_validation(given: dict[str, Any] | None, word: str) -> None:
    assert word in stamps.reason(given, FACTS, "if_needed")


def test_a_changed_fact_makes_the_stamp_stale_and_is_named() -> None:
    text = stamps.reason(node(STAMP), {**FACTS, "driver": "595.91.07", "digest": "sha256:b"}, "if_needed")
    assert "driver" in text


@pytest.mark.parametrize("label", ["time-slicing-4", "dra"])
def test_a_stamp_is_of_the_layout_that_the_node_had(label: str) -> None:
    shared = {"gpusmith.io/gpu-layout": label}
    there = node(STAMP)
    assert stamps.proved(stamps.read_stamp(there), "layout") == "whole"
    assert stamps.proved(None, "layout") == ""
    there["metadata"]["labels"] = shared
    assert "its layout changed" in stamps.reason(there, FACTS, "if_needed")
    there["metadata"]["annotations"][ANNOTATION] = stamps.make_stamp(FACTS, "2026-11-21T10:00:00Z", there)
    assert stamps.reason(there, FACTS, "if_needed") == ""
    assert stamps.proved(stamps.read_stamp(there), "layout") == label
    there["metadata"]["labels"] = {}
    assert "its layout changed" in stamps.reason(there, FACTS, "if_needed")


@pytest.mark.parametrize("check", [False, True])
def test_check_mode_does_not_promise_what_the_run_may_spare(check: bool) -> None:
    """It sees the drift that the run takes away before it looks at the stamp."""
    memory = Memory({"/api/v1/nodes/gpu-1": node(STAMP), "/api/v1/nodes/gpu-2": node()})
    memory.objects["/api/v1/nodes/gpu-2"]["metadata"]["name"] = "gpu-2"
    drifted = {**FACTS, "runtime": "other", "digest": "sha256:b"}
    hosts = {name: {"node": name, "facts": drifted} for name in ("gpu-1", "gpu-2")}
    found = stamps.plan(stamps.by_name(memory.cluster), hosts, "if_needed", check)
    hedge = ", unless this run sets that right" if check else ""
    assert found == {
        "gpu-1": f"since it was validated, its runtime changed{hedge}",
        "gpu-2": "it was never validated",
    }


def test_a_node_is_proved_by_its_own_and_the_clusters_checks() -> None:
    assert stamps.judge(results(check("gpu-1"), check("cluster")), "gpu-1").problem is None
    other = results(check("gpu-1"), check("gpu-2", "failed", cause="x"))
    assert stamps.judge(other, "gpu-1").problem is None
    assert stamps.judge(other, "gpu-2").problem is not None
    cluster = results(check("gpu-1"), check("cluster", "failed", cause="no RuntimeClass"))
    assert "no RuntimeClass" in cause(stamps.judge(cluster, "gpu-1"))


@pytest.mark.parametrize("outcome", ["failed", "error"])
def test_a_bad_check_gives_cause_and_next_step(outcome: str) -> None:
    bad = check("gpu-1", outcome, cause="GPU 3 is lost", next_step="Reset it.")
    proof = stamps.judge(results(bad), "gpu-1")
    assert proof.problem is not None
    assert "GPU 3 is lost" in proof.problem.cause
    assert proof.problem.next_step == "Reset it."


def test_steps_of_several_checks_are_told_apart() -> None:
    one = {**check("gpu-1", "failed", cause="It is lost.", next_step="Reset it."), "id": "nodes.a"}
    rows = [
        one,
        {**one, "id": "nodes.b"},
        {**one, "id": "nodes.c", "cause": "It is hot.", "next_step": "Cool it."},
    ]
    problem = stamps.judge(results(*rows), "gpu-1").problem
    assert problem is not None
    assert problem.cause == "nodes.a: It is lost; nodes.b: It is lost; nodes.c: It is hot"
    assert problem.next_step == "nodes.a, nodes.b: Reset it. nodes.c: Cool it."


@pytest.mark.parametrize(
    "given",
    [
        {"schema": "other"},
        results(check("gpu-1"), complete=False),
        {**results(check("gpu-1")), "run": {"nodes": ["gpu-1"]}},
        {**results(check("gpu-1")), "run": {"complete": True, "nodes": ["gpu-2"]}},
        results(check("gpu-1", "skipped")),
        results(check("gpu-1"), check("gpu-1", "skipped", skip="blocked", cause="NVML cannot be asked")),
        results(check("gpu-1"), check("gpu-1", "skipped", skip="left_out")),
        results(check("gpu-1"), check("gpu-1", "skipped", skip=None)),
        results(check("gpu-1"), check("cluster", "skipped", skip="blocked")),
        results(check("gpu-1"), check("gpu-1", "of a later version")),
        results(),
        results(check("gpu-1"), excluded=[{"node": "gpu-1", "gpus": 1, "reason": "not tested"}]),
    ],
)
def test_nothing_less_than_a_complete_pass_proves_a_node(given: dict[str, Any]) -> None:
    proof = stamps.judge(given, "gpu-1")
    assert proof.problem is not None
    assert not proof.busy


def test_what_watches_a_node_proves_nothing_of_it_and_is_told_apart() -> None:
    bad = {"outcome": "failed", "cause": "It is down.", "next_step": "Look."}
    rows = [
        {**check("gpu-1"), **bad, "id": "monitoring.targets"},
        {**check("cluster"), **bad, "id": "monitoring.prometheus"},
        {**check("gpu-2"), **bad, "id": "monitoring.gpus"},
        {**check("gpu-1", "skipped", skip="blocked"), "id": "monitoring.alerts"},
    ]
    given = results(check("gpu-1"), *rows)
    assert stamps.judge(given, "gpu-1").problem is None
    assert stamps.unwatched(given, "gpu-1") == [
        "monitoring.targets: It is down. Look.",
        "monitoring.prometheus: It is down. Look.",
    ]
    # Of nothing but what watches it, no node is proved.
    assert stamps.judge(results({**check("gpu-1"), "id": "monitoring.alerts"}), "gpu-1").problem is not None


def test_what_a_node_does_not_have_it_need_not_prove() -> None:
    given = results(check("gpu-1"), check("gpu-1", "skipped", skip="not_applicable", cause="no NVSwitches"))
    assert stamps.judge(given, "gpu-1").problem is None


def test_busy_gpus_leave_the_question_open_and_name_their_holder() -> None:
    given = results(check("gpu-1"), busy=[{"node": "gpu-1", "gpus": 2, "holder": "team/job"}])
    proof = stamps.judge(given, "gpu-1")
    assert proof.busy
    assert proof.problem is not None
    assert "2 by 'team/job'" in proof.problem.cause
    assert cause(stamps.judge(given, "gpu-2")) == "no check of this node passed"


def test_the_patch_keeps_the_taints_of_others_and_guards_against_races() -> None:
    patch = stamps.stamp_patch(node(None, STARTUP_TAINT, "nvidia.com/gpu"), STAMP)
    assert [taint["key"] for taint in patch["spec"]["taints"]] == ["nvidia.com/gpu"]
    assert patch["metadata"]["resourceVersion"] == "7"
    assert "spec" not in stamps.stamp_patch(node(None, "nvidia.com/gpu"), STAMP)
    assert stamps.stamp_patch(node(None, STARTUP_TAINT), STAMP)["spec"] == {"taints": None}


def test_a_stamp_can_be_read_back() -> None:
    assert stamps.read_stamp(node(STAMP)) == FACTS | dict.fromkeys(("time", "since"), "2026-11-21T10:00:00Z")
    assert json.loads(STAMP)["simulated"] is True


# --- with the cluster ------------------------------------------------------------------------------------

NODE = "/api/v1/nodes/gpu-1"
PASSED = stamps.Proof()
FAILED = stamps.Proof(Problem("GPU 3 is lost.", "Reset it."))
BUSY = stamps.Proof(Problem("GPUs were busy", ""), busy=True)


def test_one_list_decides_for_all_hosts() -> None:
    memory = Memory({NODE: node(STAMP)})
    hosts = {name: {"node": name, "facts": FACTS} for name in ("gpu-2", "gpu-1")}
    assert stamps.plan(stamps.by_name(memory.cluster), hosts, "if_needed") == {
        "gpu-2": "the cluster has no such node"
    }


def test_a_proved_node_is_stamped_and_untainted() -> None:
    memory = Memory({NODE: node(None, STARTUP_TAINT, "nvidia.com/gpu")})
    done = stamps.put_outcome(memory.cluster, "gpu-1", PASSED, FACTS, check=False)
    assert (done.proved, done.changed, done.untainted) == (True, True, True)
    there = memory.objects[NODE]
    assert there["metadata"]["annotations"][ANNOTATION] == done.stamp
    assert json.loads(there["metadata"]["annotations"][ANNOTATION])["digest"] == "sha256:a"
    assert [row["key"] for row in there["spec"]["taints"]] == ["nvidia.com/gpu"]


def conditions(memory: Memory) -> dict[str, str]:
    rows = memory.objects[NODE].get("status", {}).get("conditions", [])
    return {row["type"]: row["status"] for row in rows}


def test_a_node_says_the_outcome_in_a_condition_where_it_is_asked_to() -> None:
    there = {**node(None, STARTUP_TAINT), "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    memory = Memory({NODE: there})

    def put(proof: stamps.Proof, wanted: bool = True) -> stamps.Stamped:
        return stamps.put_outcome(memory.cluster, "gpu-1", proof, FACTS, check=False, conditions=wanted)

    put(PASSED)
    assert conditions(memory) == {"Ready": "True", CONDITION: "True"}
    assert put(FAILED).changed
    row = memory.objects[NODE]["status"]["conditions"][-1]
    assert (row["status"], row["reason"], row["message"]) == ("False", "NotProved", "GPU 3 is lost.")
    memory.done.clear()
    assert not put(FAILED).changed
    assert memory.done == []
    assert put(FAILED, wanted=False).changed
    assert conditions(memory) == {"Ready": "True"}


@pytest.mark.parametrize(
    ("status", "wanted", "changed"),
    [(None, True, True), ("False", True, True), ("True", True, False), (None, False, False)],
)
@pytest.mark.parametrize("busy", [False, True])
def test_a_node_that_was_proved_before_gets_the_condition_as_well(
    status: str | None, wanted: bool, changed: bool, busy: bool
) -> None:
    """A rule that waits for it would take all nodes with a stamp away from jobs; nothing is validated for it."""
    there = node(STAMP)
    row = {
        "type": CONDITION,
        "status": status,
        "reason": "Proved",
        "message": "A complete validation passed.",
    }
    there["status"] = {"conditions": [row] if status else []}
    memory = Memory({NODE: there})
    hosts = {"gpu-1": {"node": "gpu-1", "facts": FACTS, "condition": wanted}}
    nodes = stamps.by_name(memory.cluster)
    assert stamps.plan(nodes, hosts, "if_needed") == {}
    if busy:
        done = stamps.put_outcome(memory.cluster, "gpu-1", BUSY, FACTS, check=False, conditions=wanted)
        assert (done.proved, done.changed) == (True, changed)
    else:
        assert bool(stamps.say_stamps(memory.cluster, nodes, hosts, check=False)) is changed
    assert conditions(memory) == ({CONDITION: "True"} if wanted else {})


def test_a_condition_keeps_since_when_it_is_so() -> None:
    memory = Memory({NODE: node(STAMP)})
    row = {"type": CONDITION, "status": "False", "message": "x", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    memory.objects[NODE]["status"] = {"conditions": [row]}
    stamps.put_outcome(memory.cluster, "gpu-1", FAILED, FACTS, check=False, conditions=True)
    (now,) = memory.objects[NODE]["status"]["conditions"]
    assert (now["message"], now["lastTransitionTime"]) == ("GPU 3 is lost.", row["lastTransitionTime"])
    stamps.put_outcome(memory.cluster, "gpu-1", PASSED, FACTS, check=False, conditions=True)
    (now,) = memory.objects[NODE]["status"]["conditions"]
    assert now["lastTransitionTime"] != row["lastTransitionTime"]


def test_a_node_that_changed_meanwhile_is_read_again() -> None:
    memory = Memory({NODE: node(None, STARTUP_TAINT)})
    memory.refusals["PATCH", NODE] = [409, 409]
    assert stamps.put_outcome(memory.cluster, "gpu-1", PASSED, FACTS, check=False).untainted
    assert memory.asked == [NODE] * 3
    memory.refusals["PATCH", NODE] = [409] * stamps.TRIES
    with pytest.raises(ApiRefused):
        stamps.put_outcome(memory.cluster, "gpu-1", PASSED, FACTS, check=False)


def test_a_node_that_is_gone_is_named() -> None:
    with pytest.raises(GpusmithError, match="no node 'gpu-1' any more"):
        stamps.put_outcome(Memory({}).cluster, "gpu-1", PASSED, FACTS, check=False)


def test_a_node_that_is_not_proved_loses_its_stamp_and_keeps_its_taint() -> None:
    memory = Memory({NODE: node(STAMP, STARTUP_TAINT)})
    done = stamps.put_outcome(memory.cluster, "gpu-1", FAILED, FACTS, check=False)
    assert (done.proved, done.changed) == (False, True)
    assert done.message == "Node 'gpu-1' is not validated: GPU 3 is lost. Reset it."
    assert ANNOTATION not in memory.objects[NODE]["metadata"]["annotations"]
    assert stamps.has_taint(memory.objects[NODE])
    again = stamps.put_outcome(memory.cluster, "gpu-1", FAILED, FACTS, check=False)
    assert (again.proved, again.changed) == (False, False)


def test_busy_gpus_leave_a_current_stamp_and_no_stale_one() -> None:
    memory = Memory({NODE: node(STAMP)})
    done = stamps.put_outcome(memory.cluster, "gpu-1", BUSY, FACTS, check=False)
    assert (done.proved, done.changed, memory.done) == (True, False, [])
    stale = stamps.put_outcome(memory.cluster, "gpu-1", BUSY, {**FACTS, "digest": "sha256:b"}, check=False)
    assert (stale.proved, stale.changed) == (False, True)


@pytest.mark.parametrize("proof", [PASSED, FAILED])
def test_check_mode_tries_out_only(proof: stamps.Proof) -> None:
    memory = Memory({NODE: node(STAMP, STARTUP_TAINT)})
    assert stamps.put_outcome(memory.cluster, "gpu-1", proof, FACTS, check=True).changed
    assert memory.dry == {True}


def test_results_of_another_run_prove_nothing(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    with pytest.raises(ToolError, match="does not exist: the suite wrote no results"):
        stamps.read_results(path, 0.0)
    path.write_text("[]")
    with pytest.raises(ToolError, match="holds no results"):
        stamps.read_results(path, 0.0)
    path.write_text("{")
    with pytest.raises(ToolError, match="cannot be read"):
        stamps.read_results(path, 0.0)
    path.write_text("{}")
    os.utime(path, (100.0, 100.0))
    with pytest.raises(ToolError, match="older than this run"):
        stamps.read_results(path, 200.0)
    assert stamps.read_results(path, 100.0) == {}


def test_a_later_validation_leaves_since_when_the_driver_serves() -> None:
    memory = Memory({NODE: node(STAMP)})
    stamps.put_outcome(memory.cluster, "gpu-1", PASSED, FACTS, check=False)
    assert stamps.validated_since(memory.objects[NODE]) == dt.datetime(2026, 11, 21, 10, tzinfo=dt.UTC)


# --- since when a driver serves ------------------------------------------------------------------------------------


def _stamped(fake_node: dict[str, Any], driver: str, at: str) -> dict[str, Any]:
    facts = {**FACTS, "driver": driver}
    text = stamps.make_stamp(facts, at, fake_node)
    return {**fake_node, "metadata": {**fake_node["metadata"], "annotations": {ANNOTATION: text}}}


def test_since_when_a_driver_serves_outlives_later_validations() -> None:
    row: dict[str, Any] = {"metadata": {"name": "gpu-1"}}
    first = _stamped(row, "580.178.04", "2026-11-01T10:00:00Z")
    assert stamps.validated_since(first) == dt.datetime(2026, 11, 1, 10, tzinfo=dt.UTC)
    second = _stamped(first, "580.178.04", "2026-11-21T10:00:00Z")
    assert stamps.validated_since(second) == dt.datetime(2026, 11, 1, 10, tzinfo=dt.UTC)
    other = _stamped(second, "580.200.01", "2026-11-22T10:00:00Z")
    assert stamps.validated_since(other) == dt.datetime(2026, 11, 22, 10, tzinfo=dt.UTC)


def test_a_stamp_of_an_earlier_release_tells_by_its_time() -> None:
    text = json.dumps({"driver": "580.178.04", "time": "2026-11-01T10:00:00Z"})
    row: dict[str, Any] = {"metadata": {"name": "gpu-1", "annotations": {ANNOTATION: text}}}
    assert stamps.validated_since(row) == dt.datetime(2026, 11, 1, 10, tzinfo=dt.UTC)
    assert stamps.validated_since(_stamped(row, "580.178.04", "2026-11-21T10:00:00Z")) == dt.datetime(
        2026, 11, 1, 10, tzinfo=dt.UTC
    )


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"time": "yesterday"}', '{"time": null}'])
def test_no_stamp_proves_no_time(text: str) -> None:
    assert stamps.validated_since({"metadata": {"annotations": {ANNOTATION: text}}}) is None
