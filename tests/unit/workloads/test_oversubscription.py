"""One pod more than GPUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpusmith.checks.findings import Outcome
from gpusmith.names import GPU_RESOURCE
from gpusmith.wait import Done, NotYet
from gpusmith.workloads import pending as pending_module
from gpusmith.workloads import waiting
from gpusmith.workloads.judge import Expected
from gpusmith.workloads.oversubscription import insufficient, judge
from gpusmith.workloads.pending import StaysPending
from gpusmith.workloads.waiting import PodProblem
from tests.unit.workloads.answers import READY, answer, before_each_creation


def test_one_pod_too_many_that_runs_fails(run: Any, fake_cluster: Any) -> None:
    spare = "GPU-5"
    fake_cluster.gpus["gpu-1"].append(spare)
    found, _cleanup = run(gpu_1=READY)
    finding = found["gpu-1"].findings["workloads.oversubscription"]
    assert finding.outcome is Outcome.FAILED
    assert "was placed while 4 pods hold all GPUs" in finding.cause


@pytest.mark.parametrize(
    ("spec", "words", "outcome", "names"),
    [
        ({"schedulingGates": [{"name": "kueue"}]}, "gated", Outcome.ERROR, "scheduling gate 'kueue'"),
        ({"schedulerName": "volcano"}, "", Outcome.ERROR, "scheduler 'volcano'"),
        ({"schedulerName": "yunikorn"}, "task waits for resources", Outcome.PASSED, ""),
        ({}, "another reason", Outcome.FAILED, "another reason"),
    ],
)
def test_queue_controllers_have_words_of_their_own(
    run: Any,
    fake_cluster: Any,
    spec: dict[str, Any],
    words: str,
    outcome: Outcome,
    names: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if outcome is not Outcome.PASSED:
        monkeypatch.setattr(pending_module, "PENDING_WAIT_S", 1.0)
    started = fake_cluster.schedule

    def schedule() -> None:
        started()
        pod = fake_cluster.pods.get("n0-one-more")
        if pod and pod["status"]["phase"] == "Pending":
            row = {"type": "PodScheduled", "status": "False", "message": words}
            pod["spec"].update(spec)
            pod["status"]["conditions"] = [row] if words else []

    fake_cluster.schedule = schedule
    finding = run()[0]["gpu-1"].findings["workloads.oversubscription"]
    assert finding.outcome is outcome, finding.cause
    assert names in finding.cause


def test_wrong_gpu_after_a_release_fails(run: Any, fake_cluster: Any) -> None:
    def hold(env: dict[str, str], uuids: list[str]) -> Any:
        late = (
            len(fake_cluster.given) == 3
            and "n0-hold-0" not in fake_cluster.given
            and "n0-hold-1" in fake_cluster.given
        )
        return answer(uuid="GPU-00000001-1111-2222-3333-444444444441" if late else uuids[0])(env, uuids)

    fake_cluster.answers["hold_gpu.py"] = hold
    finding = run()[0]["gpu-1"].findings["workloads.oversubscription"]
    assert finding.outcome is Outcome.FAILED
    assert "which another pod holds" in finding.cause


HELD = {"n0-hold-0": "GPU-a", "n0-hold-1": "GPU-b"}
LACK_OF_CLAIMS = "0/3 nodes are available: 1 cannot allocate all claims, 2 node(s) didn't match Pod's node affinity/selector."
LACK = "0/3 nodes are available: 1 Insufficient nvidia.com/gpu."


@pytest.mark.parametrize(
    ("got", "cause"),
    [
        ("GPU-a", ""),
        ("GPU-c", "GPU-a was freed, but the waiting pod got GPU-c."),
        ("GPU-b", "GPU-a was freed, but the waiting pod got GPU-b which another pod holds."),
    ],
)
def test_the_waiting_pod_gets_what_was_freed(got: str, cause: str) -> None:
    judged = judge(Expected("gpu-1", True, None), HELD, "GPU-a", got, LACK)
    assert [problem.cause for problem in judged.problems] == ([f"Node 'gpu-1': {cause}"] if cause else [])
    assert judged.evidence == {"pending": LACK, "freed": "GPU-a", "got": got, "held": HELD}


def pending(message: str, node: str = "") -> dict[str, Any]:
    row = {"type": "PodScheduled", "status": "False", "message": message}
    return {
        "spec": {"nodeName": node},
        "status": {"phase": "Pending", "conditions": [row] if message else []},
    }


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    now = [100.0]
    monkeypatch.setattr(pending_module, "STAYS_PENDING_S", 3.0)
    monkeypatch.setattr("gpusmith.workloads.pending.time.monotonic", lambda: now[0])

    def passes(seconds: float) -> None:
        now[0] += seconds

    return passes


def test_it_must_wait_for_a_while_for_lack_of_gpus(clock: Callable[[float], None]) -> None:
    look = StaysPending(lambda said: insufficient(said, GPU_RESOURCE), PodProblem("placed"))
    assert look(None) == NotYet("no pod yet")
    assert look(pending("")) == NotYet("no word of the scheduler")
    clock(60.0)
    assert look(pending("1 Insufficient cpu")) == NotYet("1 Insufficient cpu"), (
        "another reason proves nothing"
    )
    clock(60.0)
    assert look(pending(LACK)) == NotYet(LACK)
    clock(2.9)
    assert look(pending(LACK)) == NotYet(LACK)
    clock(0.2)
    assert look(pending(LACK)) == Done(LACK)


def test_it_must_not_be_placed(clock: Callable[[float], None]) -> None:
    look = StaysPending(lambda said: insufficient(said, GPU_RESOURCE), PodProblem("placed"))
    look(pending(LACK))
    with pytest.raises(PodProblem, match="placed"):
        look(pending("", node="gpu-1"))


def test_a_gpu_is_freed_only_after_the_pod_waited(run: Any, fake_cluster: Any) -> None:
    done: list[str] = []
    delete = fake_cluster.delete

    def note_delete(path: str, grace_s: int | None = None) -> None:
        done.append(f"delete {path.split('/')[-1]} {grace_s}")
        delete(path, grace_s)

    before_each_creation(fake_cluster, lambda body: done.append(body["metadata"]["name"]))
    fake_cluster.delete = note_delete
    found = run()[0]["gpu-1"].findings["workloads.oversubscription"]
    after = done[done.index("n0-one-more") + 1 :]
    assert after[0] == "delete n0-hold-0 1"
    held = {f"delete n0-{name} 1" for name in ("hold-1", "hold-2", "hold-3", "one-more")}
    assert held <= set(after[1:-1]), "what holds GPUs is gone before the namespace"
    assert after[-1] == "delete gpusmith-validation-a1 None"
    assert "Insufficient nvidia.com/gpu" in found.evidence["pending"]
    assert found.evidence["got"] == found.evidence["held"]["n0-hold-0"]


def test_patience_with_the_scheduler_begins_when_a_gpu_is_freed(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "UNSCHEDULABLE_S", 1.0)
    monkeypatch.setattr(pending_module, "STAYS_PENDING_S", 1.1)
    monkeypatch.setattr(pending_module, "PENDING_WAIT_S", 10.0)
    finding = run()[0]["gpu-1"].findings["workloads.oversubscription"]
    assert finding.outcome is Outcome.PASSED, finding.cause


def test_the_scheduler_has_other_words_for_claims() -> None:
    assert insufficient(LACK_OF_CLAIMS, "gpu.nvidia.com")
    assert not insufficient(LACK_OF_CLAIMS, GPU_RESOURCE)
    assert not insufficient(LACK, "gpu.nvidia.com")
