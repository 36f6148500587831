"""Pods that hold a GPU."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpusmith.checks.findings import Outcome
from gpusmith.wait import Done, NotYet
from gpusmith.workloads.holders import judge_holder
from gpusmith.workloads.judge import Expected
from gpusmith.workloads.states import state_of
from gpusmith.workloads.waiting import Interfered, NeverRan, PodProblem
from tests.unit.workloads.answers import ends_as, start_error


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        (
            start_error("no such device"),
            "'n0-hold-1' ended before it named its GPU: exit status 128 no such device",
        ),
        ({"phase": "Succeeded"}, "'n0-hold-1' ended before it named its GPU: Succeeded"),
        (None, "pod 'n0-hold-1' was deleted by somebody else"),
    ],
    ids=["did not start", "ended", "deleted"],
)
def test_a_holder_that_ends_is_not_waited_for(
    run: Any, fake_cluster: Any, status: dict[str, Any] | None, cause: str
) -> None:
    listed = fake_cluster.items
    seen: list[str] = []

    def items(path: str, **query: str) -> Any:
        found = list(listed(path, **query))
        here = [pod for pod in found if pod["metadata"]["name"] == "n0-hold-1"]
        seen.extend("n0-hold-1" for _ in here)
        # It is seen running at first.
        return [pod for pod in found if pod not in here or status is not None or len(seen) < 5]

    ends_as(fake_cluster, ("n0-hold-1",), "", status)
    fake_cluster.items = items
    finding = run()[0]["gpu-1"].findings["workloads.allocation"]
    assert (finding.outcome, finding.duration_s < 4) == (Outcome.FAILED, True), "the deadline is 5 s"
    assert cause in finding.cause


NODE = Expected("gpu-1", True, None)
GOOD = {"schema": "gpusmith.workload/1", "ok": True, "simulated": True, "uuid": "GPU-a"}


def judged(phase: dict[str, Any], log: str) -> Any:
    return judge_holder(NODE, "n0-hold-0", state_of({"status": phase}), log)


def test_a_holder_names_its_gpu_when_it_is_ready() -> None:
    assert judged({"phase": "Running"}, "") == NotYet("no result yet")
    assert judged({"phase": "Running"}, json.dumps(GOOD)) == Done("GPU-a")
    assert judged({"phase": "Succeeded"}, json.dumps(GOOD)) == Done("GPU-a"), "its log is whole"


def test_a_holder_that_fails_is_a_problem_of_the_node() -> None:
    with pytest.raises(PodProblem, match="pod 'n0-hold-0' failed: no driver") as caught:
        judged({"phase": "Running"}, json.dumps({**GOOD, "ok": False, "error": "no driver"}))
    assert not caught.value.message.endswith("."), "the check ends the sentence"
    assert "no driver" in caught.value.log
    with pytest.raises(NeverRan, match="was not started"):
        judged(start_error("unable to freeze"), "")
    with pytest.raises(PodProblem, match="ended before it named its GPU: Succeeded"):
        judged({"phase": "Succeeded"}, "")


def test_a_holder_that_names_no_gpu_is_given_up(run: Any, fake_cluster: Any) -> None:
    ends_as(fake_cluster, ("n0-hold-1",), "")
    finding = run(values={"validation_timeout_pod_s": 2})[0]["gpu-1"].findings["workloads.allocation"]
    assert finding.outcome is Outcome.FAILED
    assert "Waited 2 s for pod 'n0-hold-1' to name its GPU; last seen: no result yet" in finding.cause


def test_a_holder_that_was_ended_at_a_limit_of_others_is_no_matter_of_the_node() -> None:
    ended = {"name": "workload", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}
    pod = {
        "spec": {"containers": [{"name": "workload", "resources": {"limits": {"memory": "64Mi"}}}]},
        "status": {"phase": "Failed", "containerStatuses": [ended]},
    }
    with pytest.raises(Interfered, match="memory limit of 64Mi"):
        judge_holder(NODE, "n0-hold-0", state_of(pod), "")
