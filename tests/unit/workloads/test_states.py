"""What status and events of a pod say."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.workloads.states import PodState, is_starting, latest_warnings, state_of
from tests.unit.workloads.answers import sandbox_event, start_error


def test_latest_warning_of_a_pod_is_found() -> None:
    events = [
        sandbox_event("2026-01-01T00:00:02Z", "no\n cni"),
        sandbox_event("2026-01-01T00:00:01Z", "older"),
        sandbox_event("2026-01-01T00:00:03Z", "pulled", type="Normal"),
        sandbox_event("2026-01-01T00:00:03Z", "a node's", involvedObject={"kind": "Node", "name": "cuda-x"}),
    ]
    assert {name: str(found) for name, found in latest_warnings(events).items()} == {
        "cuda-x": "FailedCreatePodSandBox: no cni"
    }


def test_a_pod_without_a_status_waits() -> None:
    assert state_of({}) == PodState("Pending", "", ("", ""), "", "", False)


@pytest.mark.parametrize(
    ("reason", "message", "lost"),
    [
        ("StartError", "runc: unable to freeze", True),
        ("StartError", "no such device", False),
        ("Error", "unable to freeze", False),
    ],
)
def test_a_lost_race_of_the_runtime_is_told_from_other_failures(
    reason: str, message: str, lost: bool
) -> None:
    status = start_error(message)
    status["containerStatuses"][0]["state"]["terminated"]["reason"] = reason
    state = state_of({"status": status})
    assert (state.never_ran, state.ended) == (lost, f"exit status 128 {message}")


def disrupted(reason: str, status: str = "True", **more: str) -> dict[str, Any]:
    return {"conditions": [{"type": "DisruptionTarget", "status": status, "reason": reason, **more}]}


@pytest.mark.parametrize(
    ("status", "displaced"),
    [
        (disrupted("PreemptionByScheduler", message="x"), "x"),
        (disrupted("EvictionByEvictionAPI"), "EvictionByEvictionAPI"),
        (disrupted("PreemptionByScheduler", "False"), ""),
        # Memory or disk ran out, which is about the node.
        (disrupted("TerminationByKubelet"), ""),
        ({"phase": "Failed", "reason": "OutOfnvidia.com/gpu", "message": "requested 1"}, "OutOfnvidia.com/gpu: requested 1"),
        ({"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "m"}, "UnexpectedAdmissionError: m"),
        ({"phase": "Failed", "reason": "Evicted", "message": "disk"}, ""),
    ],
)  # fmt: skip
def test_who_had_to_make_room_is_told_from_who_failed(status: dict[str, Any], displaced: str) -> None:
    assert state_of({"status": status}).displaced == displaced


def test_a_repeated_warning_does_not_hide_the_registrys_words() -> None:
    failed = [
        sandbox_event("2026-01-01T00:00:01Z", "Failed to pull image: not found", reason="Failed"),
        sandbox_event("2026-01-01T00:00:02Z", "Error: ErrImagePull", reason="Failed"),
        sandbox_event("2026-01-01T00:00:03Z", "Error: ImagePullBackOff", reason="Failed"),
    ]
    assert str(latest_warnings(failed)["cuda-x"]) == "Failed: Failed to pull image: not found"


@pytest.mark.parametrize(
    ("phase", "node", "starting"),
    [("Pending", "gpu-1", True), ("Pending", "", False), ("Running", "gpu-1", False)],
)
def test_only_a_placed_pod_is_starting(phase: str, node: str, starting: bool) -> None:
    pod: dict[str, Any] = {"spec": {"nodeName": node}, "status": {"phase": phase}}
    assert is_starting(pod) is starting
