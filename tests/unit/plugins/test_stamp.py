from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils import stamp

FACTS = {
    "driver": "580.178.04",
    "kernel": "6.1",
    "runtime": "containerd 2.3.7",
    "simulated": True,
    "digest": "sha256:a",
}


def node(annotation: str | None = None, *taints: str) -> dict[str, Any]:
    annotations = {} if annotation is None else {stamp.ANNOTATION: annotation}
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
        "schema": stamp.RESULTS_SCHEMA,
        "run": {"complete": complete, "nodes": ["gpu-1", "gpu-2"]},
        "coverage": {"nodes": {"excluded": []}, "gpus": {"busy": [], "excluded": [], **coverage}},
        "checks": list(checks),
    }


STAMP = stamp.make_stamp(FACTS, "2026-11-21T10:00:00Z")


def test_a_current_stamp_needs_no_validation_unless_asked_for() -> None:
    assert stamp.reason(node(STAMP), FACTS, "if_needed") == ""
    assert stamp.reason(node(STAMP), FACTS, "always")
    assert stamp.reason(node(), FACTS, "never") == ""


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (None, "no such node"),
        (node(), "never"),
        (node("not json"), "never"),
        (node(STAMP, stamp.TAINT), "taint"),
    ],
)
def test_what_asks_for_validation(given: dict[str, Any] | None, word: str) -> None:
    assert word in stamp.reason(given, FACTS, "if_needed")


def test_a_changed_fact_makes_the_stamp_stale_and_is_named() -> None:
    text = stamp.reason(node(STAMP), {**FACTS, "driver": "595.91.07", "digest": "sha256:b"}, "if_needed")
    assert "driver" in text


def test_a_node_is_proved_by_its_own_and_the_clusters_checks() -> None:
    assert stamp.judge(results(check("gpu-1"), check("cluster")), "gpu-1", ["gpu-1", "gpu-2"]).passed
    other = results(check("gpu-1"), check("gpu-2", "failed", cause="x"))
    assert stamp.judge(other, "gpu-1", ["gpu-1", "gpu-2"]).passed
    assert not stamp.judge(other, "gpu-2", ["gpu-1", "gpu-2"]).passed
    cluster = results(check("gpu-1"), check("cluster", "failed", cause="no RuntimeClass"))
    assert "no RuntimeClass" in stamp.judge(cluster, "gpu-1", ["gpu-1", "gpu-2"]).cause


@pytest.mark.parametrize("outcome", ["failed", "error"])
def test_a_bad_check_gives_cause_and_next_step(outcome: str) -> None:
    verdict = stamp.judge(
        results(check("gpu-1", outcome, cause="GPU 3 is lost", next_step="Reset it.")), "gpu-1", ["gpu-1"]
    )
    assert not verdict.passed
    assert "GPU 3 is lost" in verdict.cause
    assert verdict.next_step == "Reset it."


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
    verdict = stamp.judge(given, "gpu-1", ["gpu-1", "gpu-2"])
    assert not verdict.passed
    assert not verdict.busy


def test_what_a_node_does_not_have_it_need_not_prove() -> None:
    given = results(check("gpu-1"), check("gpu-1", "skipped", skip="not_applicable", cause="no NVSwitches"))
    assert stamp.judge(given, "gpu-1", ["gpu-1"]).passed


def test_busy_gpus_leave_the_question_open_and_name_their_holder() -> None:
    given = results(check("gpu-1"), busy=[{"node": "gpu-1", "gpus": 2, "holder": "team/job"}])
    verdict = stamp.judge(given, "gpu-1", ["gpu-1", "gpu-2"])
    assert verdict.busy
    assert not verdict.passed
    assert "2 by 'team/job'" in verdict.cause
    assert stamp.judge(given, "gpu-2", ["gpu-2"]).cause == "no check of this node passed"


def test_the_patch_keeps_the_taints_of_others_and_guards_against_races() -> None:
    patch = stamp.stamp_patch(node(None, stamp.TAINT, "nvidia.com/gpu"), STAMP)
    assert [taint["key"] for taint in patch["spec"]["taints"]] == ["nvidia.com/gpu"]
    assert patch["metadata"]["resourceVersion"] == "7"
    assert "spec" not in stamp.stamp_patch(node(None, "nvidia.com/gpu"), STAMP)
    assert stamp.stamp_patch(node(None, stamp.TAINT), STAMP)["spec"] == {"taints": None}


def test_a_stamp_can_be_read_back() -> None:
    assert stamp.read_stamp(node(STAMP)) == {**FACTS, "time": "2026-11-21T10:00:00Z"}
    assert json.loads(STAMP)["simulated"] is True
