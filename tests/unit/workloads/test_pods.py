"""A pod that never ran is made once more; one that ran is not."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from gpusmith.checks.findings import Outcome
from gpusmith.wait import Deadline, WaitTimeout
from gpusmith.wanted.node import NodeWanted
from gpusmith.workloads import jobs
from gpusmith.workloads.jobs import Run
from gpusmith.workloads.node import NodeUnderTest
from gpusmith.workloads.pods import Pods
from gpusmith.workloads.targets import Target
from gpusmith.workloads.waiting import PodProblem, PullTrouble
from tests.unit.workloads.answers import READY, all_passed, never_starts, outcomes


@pytest.mark.parametrize(
    ("pod", "check"),
    [
        ("n0-nvidia-smi", "nvidia-smi"), ("n0-cuda", "cuda"), ("n0-pytorch", "pytorch"), ("n0-visible-all", "isolation"),
        ("n0-hold-2", "allocation"), ("n0-one-more", "oversubscription"),
    ],
)  # fmt: skip
def test_a_pod_whose_runtime_lost_the_race_is_made_once_more(
    run: Any, fake_cluster: Any, pod: str, check: str
) -> None:
    of_job = check not in ("allocation", "oversubscription")
    never_starts(fake_cluster, "runc create failed: unable to freeze", pod + ("-x" if of_job else ""))
    found = run()[0]["gpu-1"]
    assert outcomes(found) == all_passed(), found.findings
    said = {
        name: row.evidence["made_again"]
        for name, row in found.findings.items()
        if "made_again" in row.evidence
    }
    assert list(said) == [f"workloads.{check}"]
    assert "unable to freeze" in said[f"workloads.{check}"][pod]


@pytest.mark.parametrize(
    ("pods", "message"),
    [
        (("n0-cuda-x", "n0-cuda-again-x"), "unable to freeze"),
        (("n0-cuda-x",), "nvidia-container-cli: initialization error"),
    ],
    ids=["twice", "another reason"],
)
def test_a_pod_that_does_not_start_fails(
    run: Any, fake_cluster: Any, pods: tuple[str, ...], message: str
) -> None:
    never_starts(fake_cluster, message, *pods)
    finding = run()[0]["gpu-1"].findings["workloads.cuda"]
    assert finding.outcome is Outcome.FAILED
    assert message in finding.cause


def under_test(cluster: Any, board: Any, target: Target, say: Callable[[str], None] = print) -> NodeUnderTest:
    return NodeUnderTest(cluster, Run("a1", "o"), board, target, "n0", say, lambda row: row.view)


def test_a_pod_is_missed_from_before_its_creation_on(host: Callable[..., NodeWanted]) -> None:
    done: list[str] = []

    def create(path: str, body: dict[str, Any]) -> dict[str, Any]:
        done.append(f"create {path} {body['kind']}")
        return body

    cluster = SimpleNamespace(create=create)
    board = SimpleNamespace(expect=lambda name: done.append(f"expect {name}"))
    target = Target(host(), READY, None)
    pods = Pods(under_test(cluster, board, target, done.append), "cuda", 0)
    workload = pods.task("x", ["true"])
    pods.create(jobs.job, workload)
    pods.create(jobs.pod, workload)
    assert done == [
        "expect n0-x", "create /apis/batch/v1/namespaces/gpusmith-validation-a1/jobs Job",
        "expect n0-x", "create /api/v1/namespaces/gpusmith-validation-a1/pods Pod",
    ]  # fmt: skip
    assert pods.age(workload)() < 60


def test_a_pod_ends_by_itself_before_it_is_given_up(host: Callable[..., NodeWanted]) -> None:
    waited: list[float] = []

    def wait(what: str, name: str, check: object, deadline: Deadline) -> Any:
        waited.append(deadline.seconds)
        return {"metadata": {"name": name}, "status": {"phase": "Succeeded"}}

    board = SimpleNamespace(wait=wait, warning=None, expect=lambda _: None)
    cluster = SimpleNamespace(create=lambda _path, body: body, log=lambda *_: "printed")
    target = Target(host(validation_timeout_pod_s=7, validation_timeout_pull_s=9), READY, None)
    pods = Pods(under_test(cluster, board, target), "cuda", 0)
    workload = pods.task("x", ["true"])
    assert pods.run_job(workload) == "printed"
    assert workload.timeout_s == 7
    assert waited == [9.0, 22.0], "pulling has a time of its own"


def test_a_job_that_is_made_suspended_is_said_with_its_queue(host: Callable[..., NodeWanted]) -> None:
    def create(_: str, body: dict[str, Any]) -> dict[str, Any]:
        labels = {**body["metadata"]["labels"], "kueue.x-k8s.io/queue-name": "team"}
        return {"metadata": {"labels": labels}, "spec": {"suspend": True}}

    waits: list[Any] = []

    def wait(what: str, name: str, check: Any, deadline: Deadline) -> Any:
        waits.append(check)
        raise InterruptedError

    board = SimpleNamespace(wait=wait, warning=None, expect=lambda _: None)
    cluster = SimpleNamespace(create=create)
    pods = Pods(under_test(cluster, board, Target(host(), READY, None)), "cuda", 0)
    with pytest.raises(InterruptedError):
        pods.run_job(pods.task("x", ["true"]))
    assert waits[0].suspended == "'suspend: true' of its Job (kueue.x-k8s.io/queue-name=team)"


def pulls(reason: str) -> dict[str, Any]:
    return {"reason": reason, "message": f"{reason} image 'big'", "involvedObject": {"name": "n0-x-1"}}


@pytest.mark.parametrize(
    ("events", "kind", "says"),
    [
        ([pulls("Pulling")], PullTrouble, "did not come within 9 s: Pulling image 'big'"),
        ([pulls("Pulled"), pulls("Pulling")], PodProblem, "did not start in time"),
        ([], PodProblem, "did not start in time"),
    ],
    ids=["large image", "pulled", "never pulled"],
)
def test_an_image_that_does_not_come_in_time_is_no_failure_of_the_node(
    host: Callable[..., NodeWanted], events: list[Any], kind: type[Exception], says: str
) -> None:
    def wait(*_: Any) -> Any:
        raise WaitTimeout("Waited 9 s")

    pod = {"metadata": {"name": "n0-x-1"}}
    board = SimpleNamespace(wait=wait, warning=None, expect=lambda _: None, pod=lambda _: pod, stopped=False)
    cluster = SimpleNamespace(create=lambda _path, body: body, items=lambda *_, **__: events)
    pods = Pods(under_test(cluster, board, Target(host(validation_timeout_pull_s=9), READY, None)), "cuda", 0)
    with pytest.raises(kind, match=says):
        pods.run_job(pods.task("x", ["true"]))
