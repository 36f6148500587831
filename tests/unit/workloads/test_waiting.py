"""What is waited for of a pod, and when it is given up."""

from __future__ import annotations

import pytest

from gpusmith.wait import NotYet
from gpusmith.workloads.states import Warned
from gpusmith.workloads.waiting import Ends, PodProblem, Starts


def test_a_pod_that_was_deleted_is_not_waited_for() -> None:
    running = {"metadata": {"name": "cuda-x"}, "spec": {"nodeName": "gpu-1"}, "status": {"phase": "Running"}}
    check = Ends(Starts(lambda: 0.0))
    assert [check(None), check(running)] == [NotYet("no pod yet"), NotYet("Running")]
    with pytest.raises(PodProblem, match="was deleted by somebody else"):
        check(None)


REFUSED = Warned("FailedCreate", "failed calling webhook 'policy.example'")


def test_a_job_whose_pod_is_refused_is_given_up_with_the_reason() -> None:
    young = Ends(Starts(lambda: 20.0, job_warning=lambda: REFUSED))(None)
    assert isinstance(young, NotYet)
    assert "policy.example" in young.seen
    with pytest.raises(PodProblem, match=r"no pod can be made.*policy\.example"):
        Ends(Starts(lambda: 40.0, job_warning=lambda: REFUSED))(None)
    assert isinstance(Ends(Starts(lambda: 40.0))(None), NotYet)


def test_hopeless_pod_is_given_up_early() -> None:
    pod = {
        "status": {
            "phase": "Pending",
            "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no"}}}],
        }
    }
    with pytest.raises(PodProblem, match="ImagePullBackOff: no"):
        Starts(lambda: 0.0)(pod)


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
    with pytest.raises(PodProblem, match="does not place it: Insufficient"):
        Starts(lambda: 50.0)(pod)
