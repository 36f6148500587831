"""Others use the nodes too: what they take, free or keep back meanwhile is left out, and no failure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gpusmith.checks.findings import Finding, Outcome, Skip
from gpusmith.cluster.holders import Holder
from gpusmith.cluster.views import NodeView
from gpusmith.wanted.layouts import WHOLE
from gpusmith.workloads import waiting
from gpusmith.workloads.jobs import Run
from gpusmith.workloads.targets import Target, by_others, looker
from tests.unit.hosts import make_host
from tests.unit.objects import gpus
from tests.unit.workloads.answers import READY, all_passed, before_each_creation, ends_as, outcomes

TRAINS = Holder("team", "train", gpus(1))


def busy(*holders: Holder) -> NodeView:
    return replace(READY, holders=holders)


@pytest.mark.parametrize(
    ("before", "now", "says"),
    [
        (READY, READY, ""),
        (READY, busy(TRAINS), "GPUs of node 'gpu-1' were taken by team/train (1) meanwhile"),
        (busy(TRAINS), READY, "GPUs of node 'gpu-1' were freed by team/train (1) meanwhile"),
        (busy(TRAINS), busy(Holder("team", "train", gpus(2))), "taken by team/train (1)"),
        (busy(TRAINS), busy(Holder("team", "next", gpus(1))), "taken by team/next (1) and freed by team/train (1)"),
        (READY, busy(Holder("team", "train", gpus(4))), "all 4 GPUs of node 'gpu-1' are busy, held by team/train (4)"),
        (READY, replace(READY, unschedulable=True), "node 'gpu-1' is cordoned"),
        (READY, replace(READY, taints=({"key": "fix", "effect": "NoExecute"},)), "has taint fix=:NoExecute"),
        # What is broken is nobody's doing.
        (READY, None, ""),
        (READY, replace(READY, ready=False), ""),
        (READY, replace(READY, allocatable=gpus(0)), ""),
        (READY, replace(READY, allocatable=gpus(3)), ""),
    ],
)  # fmt: skip
def test_what_others_did(before: NodeView, now: NodeView | None, says: str) -> None:
    said = by_others(Target(make_host(), before, None), now)
    assert says in said
    assert bool(said) is bool(says)


def test_a_look_leaves_our_own_pods_out() -> None:
    def pod(namespace: str) -> dict[str, Any]:
        limits = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
        return {
            "metadata": {"name": "p", "namespace": namespace},
            "spec": {"containers": [limits]},
            "status": {},
        }

    asked: list[Any] = []

    class Api:
        def serves(self, version: str) -> bool:
            return False

        def items(self, path: str, **query: str) -> list[Any]:
            asked.append((path, query))
            node = {"metadata": {"name": "gpu-1"}, "status": {"allocatable": {"nvidia.com/gpu": "4"}}}
            return [node] if path.endswith("/nodes") else [pod("gpusmith-validation-a1"), pod("team")]

    view = looker(Api(), Run("a1", "o"))(Target(make_host(), READY, None))  # type: ignore[arg-type]
    assert view is not None
    assert ([row.title for row in view.holders], view.free(WHOLE.offers(4)[0])) == (["team/p"], 3)
    assert asked == [
        ("/api/v1/nodes", {"fieldSelector": "metadata.name=gpu-1"}),
        ("/api/v1/pods", {"fieldSelector": "spec.nodeName=gpu-1"}),
    ]


class Node:
    """A node that others use: how many of its GPUs they hold is told to the cluster in memory, too."""

    def __init__(self, fake_cluster: Any) -> None:
        self.cluster = fake_cluster
        self.view: NodeView = READY

    def __call__(self, target: Target) -> NodeView:
        return self.view

    def taken(self, count: int) -> None:
        self.view = busy(Holder("team", "train", gpus(count))) if count else READY
        given = {uuid for uuids in self.cluster.given.values() for uuid in uuids}
        free = [uuid for uuid in self.cluster.gpus["gpu-1"] if uuid not in given]
        self.cluster.foreign["gpu-1"] = set(free[:count])


@pytest.fixture
def node(fake_cluster: Any, monkeypatch: pytest.MonkeyPatch) -> Node:
    monkeypatch.setattr(waiting, "UNSCHEDULABLE_S", 0.1)
    return Node(fake_cluster)


def on_creation(fake_cluster: Any, name: str, do: Callable[[], object]) -> None:
    before_each_creation(fake_cluster, lambda body: do() if body["metadata"]["name"] == name else None)


def left_out(finding: Finding, says: str) -> None:
    assert (finding.outcome, finding.skip) == (Outcome.SKIPPED, Skip.LEFT_OUT), finding
    assert says in finding.cause


def test_free_gpus_are_read_when_the_node_has_its_turn(run: Any, node: Node, said: list[str]) -> None:
    node.taken(3)
    found = run(look=node)[0]["gpu-1"]
    assert outcomes(found) == all_passed(), found.findings
    assert len(found.tested) == 1
    assert "gpu-1: CUDA on 1 GPUs: passed" in "".join(said)
    assert found.view == node.view, "coverage names who holds the others"


def test_a_node_that_is_free_again_at_its_turn_is_tested(run: Any) -> None:
    found = run(
        ("gpu-1", "gpu-2"),
        gpu_1=busy(Holder("team", "train", gpus(4))),
        look=lambda row: replace(READY, name=row.host.name),
    )
    assert set(outcomes(found[0]["gpu-1"]).values()) == {"passed"}, found[0]["gpu-1"].findings


def test_a_node_that_is_kept_back_at_its_turn_is_left_out(run: Any, fake_cluster: Any) -> None:
    found = run(look=lambda _: replace(READY, unschedulable=True))[0]["gpu-1"]
    assert set(outcomes(found).values()) == {"skipped"}
    assert (found.kept_back, "cordoned" in found.reason) == (True, True)
    assert not fake_cluster.logs, "no pod was made"


@pytest.mark.parametrize("count", [1, 4])
def test_gpus_that_are_taken_between_two_steps_are_left_alone(
    run: Any, node: Node, fake_cluster: Any, count: int
) -> None:
    on_creation(fake_cluster, "n0-nvidia-smi", lambda: node.taken(0))
    answer_cuda = fake_cluster.answers["run_cuda.py"]

    def taken_after_cuda(env: dict[str, str], uuids: list[str]) -> Any:
        node.taken(count)
        return answer_cuda(env, uuids)

    fake_cluster.answers["run_cuda.py"] = taken_after_cuda
    found = run(look=node)[0]["gpu-1"]
    if count == 1:
        assert outcomes(found) == all_passed(), found.findings
        return
    rows = found.findings
    assert {rows[f"workloads.{name}"].outcome for name in ("nvidia-smi", "cuda", "isolation")} == {
        Outcome.PASSED
    }
    for name in ("pytorch", "tensorflow", "allocation", "oversubscription"):
        left_out(rows[f"workloads.{name}"], "all 4 GPUs" if name != "oversubscription" else "did not pass")


@pytest.mark.parametrize(
    ("pod", "check"), [("n0-nvidia-smi", "nvidia-smi"), ("n0-cuda", "cuda"), ("n0-hold-3", "allocation")]
)
def test_a_gpu_that_is_taken_in_the_middle_leaves_the_check_out(
    run: Any, node: Node, fake_cluster: Any, pod: str, check: str
) -> None:
    on_creation(fake_cluster, pod, lambda: node.taken(1))
    found = run(look=node)[0]["gpu-1"]
    left_out(found.findings[f"workloads.{check}"], "taken by team/train (1) meanwhile")
    assert "failed" not in outcomes(found).values(), found.findings
    assert found.kept_back


def test_a_gpu_that_nobody_took_and_that_is_missing_fails(run: Any, node: Node, fake_cluster: Any) -> None:
    def lost() -> None:
        node.taken(1)
        node.view = READY

    on_creation(fake_cluster, "n0-cuda", lost)
    finding = run(look=node)[0]["gpu-1"].findings["workloads.cuda"]
    assert finding.outcome is Outcome.FAILED
    assert "the scheduler does not place it" in finding.cause


@pytest.mark.parametrize("taken", [True, False])
def test_a_scheduler_of_others_that_places_nothing_is_no_failure(
    run: Any, node: Node, fake_cluster: Any, taken: bool
) -> None:
    """YuniKorn's webhook gives it to every pod. Who holds the GPUs is still the first reason."""
    started = fake_cluster.schedule

    def schedule() -> None:
        for pod in fake_cluster.pods.values():
            pod["spec"]["schedulerName"] = "yunikorn"
        started()

    def lost() -> None:
        node.taken(1)
        node.view = node.view if taken else READY

    fake_cluster.schedule = schedule
    on_creation(fake_cluster, "n0-cuda", lost)
    finding = run(look=node)[0]["gpu-1"].findings["workloads.cuda"]
    if taken:
        left_out(finding, "taken by team/train (1) meanwhile")
        return
    assert finding.outcome is Outcome.ERROR
    assert "scheduler 'yunikorn'" in finding.cause


def test_a_gpu_that_is_freed_in_the_middle_is_no_failure(run: Any, node: Node, fake_cluster: Any) -> None:
    node.taken(1)
    on_creation(fake_cluster, "n0-one-more", lambda: node.taken(0))
    found = run(look=node)[0]["gpu-1"]
    left_out(found.findings["workloads.oversubscription"], "freed by team/train (1) meanwhile")
    assert "failed" not in outcomes(found).values()


def test_a_freed_gpu_that_somebody_takes_first_is_no_failure(
    run: Any, node: Node, fake_cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "UNSCHEDULABLE_S", 0.3)
    delete = fake_cluster.delete

    def outrun(path: str, grace_s: int | None = None) -> None:
        if path.endswith("/n0-hold-0") and node.view == READY:
            fake_cluster.foreign["gpu-1"] = set(fake_cluster.given["n0-hold-0"])
            node.view = busy(TRAINS)
        delete(path, grace_s)

    fake_cluster.delete = outrun
    found = run(look=node)[0]["gpu-1"]
    left_out(found.findings["workloads.oversubscription"], "taken by team/train (1) meanwhile")


PREEMPTED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "PreemptionByScheduler",
    "message": "preempting",
}


def test_a_pod_that_gave_way_to_a_job_is_no_failure(run: Any, node: Node, fake_cluster: Any) -> None:
    ends_as(fake_cluster, ("n0-cuda-x",), "", {"phase": "Failed", "conditions": [PREEMPTED]})
    on_creation(fake_cluster, "n0-cuda", lambda: setattr(node, "view", busy(TRAINS)))
    finding = run(look=node)[0]["gpu-1"].findings["workloads.cuda"]
    left_out(finding, "taken by team/train (1) meanwhile: its pod was ended from outside: preempting")


def test_a_pod_that_gave_way_for_cpus_is_known_by_its_event(run: Any, fake_cluster: Any) -> None:
    ends_as(fake_cluster, ("n0-cuda-x",), "", {"phase": "Failed", "conditions": [PREEMPTED]})
    fake_cluster.events = [
        {
            "involvedObject": {"kind": "Pod", "name": "n0-cuda-x"},
            "message": "Preempted by pod u on node gpu-1",
        }
    ]
    left_out(
        run()[0]["gpu-1"].findings["workloads.cuda"], "gave way to a pod of somebody else: Preempted by pod u"
    )


def test_a_pod_that_somebody_deleted_for_no_such_reason_fails(run: Any, fake_cluster: Any) -> None:
    ends_as(fake_cluster, ("n0-cuda-x",), "", {"phase": "Failed", "conditions": [PREEMPTED]})
    assert run()[0]["gpu-1"].findings["workloads.cuda"].outcome is Outcome.FAILED


def test_gpus_are_given_back_as_soon_as_the_node_is_through(run: Any, fake_cluster: Any) -> None:
    held: list[int] = []
    delete = fake_cluster.delete

    def at_the_end(path: str, grace_s: int | None = None) -> None:
        if path.split("/")[-2] == "namespaces":
            held.append(len(fake_cluster.given))
        delete(path, grace_s)

    fake_cluster.delete = at_the_end
    run(("gpu-1", "gpu-2"))
    assert held == [0]


def test_a_job_that_does_not_end_gives_its_gpus_back(
    run: Any, fake_cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpusmith.workloads.pods.END_GRACE_S", 0.1)
    ends_as(fake_cluster, ("n0-cuda-x",), "", {"phase": "Running"})
    gone: list[str] = []
    delete = fake_cluster.delete

    def note(path: str, grace_s: int | None = None) -> None:
        gone.append("/".join(path.split("/")[-2:]))
        delete(path, grace_s)

    fake_cluster.delete = note
    found = run(values={"validation_timeout_pod_s": 1, "validation_load_s": 1})[0]["gpu-1"]
    assert "did not end in time" in found.findings["workloads.cuda"].cause
    assert gone[:2] == ["jobs/n0-cuda", "pods/n0-cuda-x"]
    assert found.findings["workloads.pytorch"].outcome is Outcome.PASSED


def test_a_run_says_that_it_lives(run: Any, fake_cluster: Any) -> None:
    run()
    assert fake_cluster.beats >= 1


REFUSED = {
    "phase": "Failed",
    "reason": "TopologyAffinityError",
    "message": "Pod was rejected: Resources cannot be allocated with Topology locality",
}


def test_gpus_that_the_kubelet_gives_no_pod_together_are_tested_in_a_pod_each(
    run: Any, fake_cluster: Any, said: list[str]
) -> None:
    """pytorch/ci-infra#696: two sockets with GPUs each, and topologyManagerPolicy single-numa-node."""
    started, gpus = fake_cluster.run, fake_cluster.gpus["gpu-1"]

    def admit(name: str, pod: dict[str, Any], command: list[str], env: Any, uuids: list[str]) -> None:
        if len(uuids) > 1:
            pod["status"] = REFUSED
            return
        apart = name.endswith("-x") and name.split("-")[-2].isdigit()
        started(name, pod, command, env, [gpus[int(name.split("-")[-2])]] if apart else uuids)

    fake_cluster.run = admit
    found = run()[0]["gpu-1"]
    assert outcomes(found) == all_passed(), found.findings
    assert sorted(found.tested) == sorted(gpus)
    for name in ("nvidia-smi", "cuda"):
        (note,) = found.findings[f"workloads.{name}"].evidence["notes"]
        assert "no pod with several" in note
        assert "Topology locality" in note
    assert set(found.findings["workloads.throttle"].evidence["reasons"]) == set(gpus), "all of them at once"


def test_a_kubelet_that_gives_no_pod_even_one_gpu_is_named(run: Any, fake_cluster: Any) -> None:
    ends_as(
        fake_cluster, tuple(f"n0-nvidia-smi{name}-x" for name in ("", "-0", "-1", "-2", "-3")), "", REFUSED
    )
    finding = run()[0]["gpu-1"].findings["workloads.nvidia-smi"]
    assert finding.outcome is Outcome.ERROR
    assert "TopologyAffinityError" in finding.cause
    assert "topologyManagerPolicy" in finding.next_step
