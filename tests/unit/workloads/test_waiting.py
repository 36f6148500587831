"""What is waited for of a pod, and when it is given up."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.errors import ToolError
from gpusmith.wait import NotYet
from gpusmith.workloads.states import Warned
from gpusmith.workloads.waiting import Contended, Ends, Interfered, PodProblem, PullTrouble, Starts


def test_a_pod_that_was_deleted_is_not_waited_for() -> None:
    running = {"metadata": {"name": "cuda-x"}, "spec": {"nodeName": "gpu-1"}, "status": {"phase": "Running"}}
    check = Ends(Starts(lambda: 0.0))
    assert [check(None), check(running)] == [NotYet("no pod yet"), NotYet("Running")]
    with pytest.raises(Contended, match="was deleted by somebody else"):
        check(None)


REFUSED = Warned("FailedCreate", "failed calling webhook 'policy.example'")


def test_a_job_whose_pod_is_refused_is_given_up_with_the_reason() -> None:
    young = Ends(Starts(lambda: 20.0, job_warning=lambda: REFUSED))(None)
    assert isinstance(young, NotYet)
    assert "policy.example" in young.seen
    with pytest.raises(Interfered, match=r"no pod can be made.*policy\.example"):
        Ends(Starts(lambda: 40.0, job_warning=lambda: REFUSED))(None)
    assert isinstance(Ends(Starts(lambda: 40.0))(None), NotYet)


def waits(reason: str, message: str) -> dict[str, Any]:
    waiting = [{"state": {"waiting": {"reason": reason, "message": message}}}]
    return {
        "metadata": {"name": "cuda-x"},
        "spec": {"nodeName": "gpu-1"},
        "status": {"phase": "Pending", "containerStatuses": waiting},
    }


def test_hopeless_pod_is_given_up_early() -> None:
    with pytest.raises(PodProblem, match="CreateContainerError: no"):
        Starts(lambda: 0.0)(waits("CreateContainerError", "no"))


WORDS = 'failed to resolve reference "registry.example/x:1": registry.example/x:1: not found'
IMAGE = 'Back-off pulling image "registry.example/x:1"'


def test_a_registry_that_fails_for_a_moment_is_borne_and_then_quoted() -> None:
    age = [10.0]
    starts = Starts(lambda: age[0])
    for age[0], reason, message in ((10.0, "ErrImagePull", WORDS), (60.0, "ImagePullBackOff", IMAGE)):
        assert isinstance(starts(waits(reason, message)), NotYet)
    age[0] = 71.0
    with pytest.raises(PullTrouble, match=r"ImagePullBackOff: failed to resolve reference.*not found"):
        starts(waits("ImagePullBackOff", IMAGE))
    assert isinstance(PullTrouble("x"), ToolError), "it is no word about GPUs"


@pytest.mark.parametrize(
    ("message", "event"), [(f"{IMAGE}: ErrImagePull: {WORDS}", None), (IMAGE, Warned("Failed", WORDS))]
)
def test_the_registrys_words_are_found_wherever_they_are(message: str, event: Warned | None) -> None:
    age = [0.0]
    starts = Starts(lambda: age[0], lambda _: event)
    starts(waits("ImagePullBackOff", message))
    age[0] = 100.0
    with pytest.raises(PullTrouble, match="not found"):
        starts(waits("ImagePullBackOff", IMAGE))


def test_an_image_name_that_is_none_is_given_up_at_once() -> None:
    with pytest.raises(PullTrouble, match="InvalidImageName: couldn't parse"):
        Starts(lambda: 0.0)(waits("InvalidImageName", "couldn't parse"))


def test_a_pod_whose_sandbox_cannot_be_made_is_given_up_with_the_reason() -> None:
    pod = {
        "metadata": {"name": "cuda-x"}, "spec": {"nodeName": "gpu-1"},
        "status": {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]},
    }  # fmt: skip
    warned = Warned("FailedCreatePodSandBox", "no cni")
    young = Starts(lambda: 20.0, lambda _: warned)(pod)
    assert isinstance(young, NotYet)
    assert young.seen == "Pending, ContainerCreating; FailedCreatePodSandBox: no cni"
    with pytest.raises(PodProblem, match=r"node 'gpu-1' cannot make a sandbox.*no cni"):
        Starts(lambda: 100.0, lambda _: warned)(pod)
    slow_pull = Warned("FailedMount", "later")
    assert isinstance(Starts(lambda: 100.0, lambda _: slow_pull)(pod), NotYet)


def test_a_pod_that_is_not_placed_is_given_up_with_the_schedulers_words() -> None:
    row = {"type": "PodScheduled", "status": "False", "message": "Insufficient nvidia.com/gpu"}
    pod = {"metadata": {"name": "cuda-x"}, "status": {"phase": "Pending", "conditions": [row]}}
    assert Starts(lambda: 40.0)(pod) == NotYet("Pending, Insufficient nvidia.com/gpu")
    with pytest.raises(Contended, match="does not place it: Insufficient"):
        Starts(lambda: 50.0)(pod)


def test_what_somebody_injects_and_does_not_start_is_not_the_nodes_fault() -> None:
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    pod = {
        "metadata": {"name": "cuda-x"},
        "spec": {"nodeName": "gpu-1"},
        "status": {"phase": "Pending", "containerStatuses": [{"name": "proxy", "state": waiting}]},
    }
    assert isinstance(Starts(lambda: 20.0)(pod), NotYet)
    with pytest.raises(Interfered, match=r"container 'proxy': ImagePullBackOff.*somebody injects"):
        Starts(lambda: 90.0)(pod)


QUEUE = {"kueue.x-k8s.io/queue-name": "team"}


@pytest.mark.parametrize(
    ("spec", "said", "kind", "names"),
    [
        ({"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}, "gated", Interfered, "gate 'kueue.x-k8s.io/admission'"),
        ({"schedulerName": "volcano"}, "", Contended, "scheduler 'volcano'"),
        ({"schedulerName": "yunikorn"}, "no room in root.team", Contended, "'yunikorn'.*does not place it: no room in root.team"),
        ({"nodeSelector": {"pool": "a"}}, "1 node(s) didn't match", Contended, "node selector 'pool=a'.*didn't match"),
    ],
)  # fmt: skip
def test_a_pod_that_others_hold_back_or_steer_is_no_fault_of_the_node(
    spec: dict[str, Any], said: str, kind: type[Exception], names: str
) -> None:
    row = {"type": "PodScheduled", "status": "False", "message": said}
    pod = {
        "metadata": {"name": "x", "labels": QUEUE},
        "spec": spec,
        "status": {"phase": "Pending", "conditions": [row] if said else []},
    }
    assert isinstance(Starts(lambda: 40.0)(pod), NotYet)
    with pytest.raises(kind, match=names) as error:
        Starts(lambda: 50.0)(pod)
    assert "kueue.x-k8s.io/queue-name=team" in str(error.value)
    assert "validation_labels" in error.value.hint  # type: ignore[attr-defined]
    assert kind is Interfered or error.value.theirs  # type: ignore[attr-defined]


def test_a_job_that_was_suspended_as_it_was_made_is_told_as_that() -> None:
    assert isinstance(Starts(lambda: 40.0, suspended="'suspend: true' of its Job")(None), NotYet)
    with pytest.raises(Interfered, match="'suspend: true' of its Job"):
        Starts(lambda: 50.0, suspended="'suspend: true' of its Job")(None)


def test_a_pod_that_is_not_near_one_cpu_is_no_fault_of_the_node() -> None:
    """pytorch/ci-infra#696: two sockets with four GPUs each, and topologyManagerPolicy single-numa-node."""
    said = "Pod was rejected: Resources cannot be allocated with Topology locality"
    pod = {
        "metadata": {"name": "n0-cuda-x"},
        "spec": {"nodeName": "gpu-1"},
        "status": {"phase": "Failed", "reason": "TopologyAffinityError", "message": said},
    }
    with pytest.raises(Interfered, match="Topology locality") as error:
        Ends(Starts(lambda: 1.0))(pod)
    assert "topologyManagerPolicy" in error.value.hint


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ('failed to pull image "registry.example/cuda:13": unauthorized: authentication required', True),
        ("unexpected status from HEAD request: 403 Forbidden", True),
        ("pull access denied, repository does not exist or may require authorization", True),
        ("denied: requested access to the resource is denied", True),
        (
            "failed to authorize: failed to fetch anonymous token: dial tcp: lookup registry.example: no such host",
            False,
        ),
        (WORDS, False),
    ],
)
def test_a_registry_that_asks_for_credentials_is_told_how_it_gets_them(said: str, named: bool) -> None:
    with pytest.raises(PullTrouble) as error:
        Starts(lambda: 1.0)(waits("InvalidImageName", said))
    assert ("gpusmith_image_pull_secrets" in error.value.hint) is named
