"""What status and events of a pod say."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.wait import Done
from gpusmith.workloads.states import PodState, is_starting, latest_warnings, state_of
from gpusmith.workloads.waiting import Interfered, Starts
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


def with_sidecar(
    *, phase: str = "Running", status: int | None = 0, reason: str = "Completed", limit: str = ""
) -> dict[str, Any]:
    """Our container beside one that somebody injected."""
    ours: dict[str, Any] = (
        {"terminated": {"exitCode": status, "reason": reason}} if status is not None else {"running": {}}
    )
    resources = {"limits": {"memory": limit}} if limit else {}
    return {
        "spec": {"containers": [{"name": "istio-proxy"}, {"name": "workload", "resources": resources}]},
        "status": {
            "phase": phase,
            "containerStatuses": [
                {"name": "istio-proxy", "state": {"running": {}}},
                {"name": "workload", "state": ours},
            ],
        },
    }


def test_a_pod_has_ended_when_our_container_has() -> None:
    """istio#11045: a sidecar of the classic kind never ends. Its GPUs are still held."""
    assert state_of(with_sidecar(status=None)).phase == "Running"
    done = state_of(with_sidecar())
    assert (done.phase, done.over, done.ended) == ("Succeeded", False, "")
    failed = state_of(with_sidecar(status=3, reason="Error"))
    assert (failed.phase, failed.ended) == ("Failed", "exit status 3 Error")
    assert state_of(with_sidecar(phase="Succeeded")).over


def test_a_container_of_others_that_failed_is_not_ours() -> None:
    raw = with_sidecar(status=None)
    raw["status"]["containerStatuses"][0]["state"] = {"terminated": {"exitCode": 1, "reason": "Error"}}
    assert (state_of(raw).phase, state_of(raw).ended) == ("Running", "")


def test_an_injected_container_that_does_not_start_is_named() -> None:
    raw = with_sidecar(status=None, phase="Pending")
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    raw["status"]["containerStatuses"][0]["state"] = waiting
    assert state_of(raw).injected == "'istio-proxy': ImagePullBackOff: no such image"
    assert state_of(raw).waiting == ("", "")


def test_an_init_container_of_others_that_fails_is_named() -> None:
    """Its pod is never restarted, so ours never runs."""
    raw = with_sidecar(phase="Failed")
    raw["status"]["containerStatuses"][1]["state"] = {"waiting": {"reason": "PodInitializing"}}
    failed = {"terminated": {"exitCode": 1, "reason": "Error"}}
    raw["status"]["initContainerStatuses"] = [{"name": "istio-init", "state": failed}]
    assert state_of(raw).injected == "'istio-init': exit status 1 Error"
    with pytest.raises(
        Interfered, match=r"container 'istio-init': exit status 1 Error, which somebody injects"
    ):
        Starts(lambda: 5.0)(raw)
    # One that ends after ours, as sidecars of the new kind do, is no trouble.
    raw["status"]["containerStatuses"][1]["state"] = {"terminated": {"exitCode": 3, "reason": "Error"}}
    assert Starts(lambda: 5.0)(raw) == Done(raw)


def test_the_memory_limit_at_which_it_was_ended_is_told() -> None:
    """NVIDIA/aicr#70: a LimitRange gives every container without limits 512Mi."""
    ended = with_sidecar(phase="Failed", status=137, reason="OOMKilled", limit="512Mi")
    assert state_of(ended).limit == "512Mi"
    assert state_of(with_sidecar(phase="Failed", status=137, reason="OOMKilled")).limit == "", (
        "the node's own memory"
    )
    assert state_of(with_sidecar(limit="512Mi")).limit == ""
