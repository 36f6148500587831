"""All workloads on a cluster in memory: what passes, what each broken answer leads to."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Any

import pytest

from gpusmith.checks.findings import Outcome, Skip
from gpusmith.cluster.holders import Holder
from tests.unit.objects import gpus
from tests.unit.workloads.answers import (
    READY,
    all_passed,
    answer,
    before_each_creation,
    ends_as,
    never_starts,
    outcomes,
)


def test_two_healthy_nodes(run: Any, fake_cluster: Any) -> None:
    found, cleanup = run(("gpu-1", "gpu-2"))
    for name in ("gpu-1", "gpu-2"):
        assert outcomes(found[name]) == all_passed(2), found[name].findings
        assert set(found[name].tested) == set(fake_cluster.gpus[name])
        assert all(row.simulated for row in found[name].findings.values())
    assert cleanup.outcome is Outcome.PASSED
    assert fake_cluster.namespaces == {}


def test_busy_gpus_are_not_taken(run: Any, fake_cluster: Any) -> None:
    taken = fake_cluster.gpus["gpu-1"][:1]
    fake_cluster.foreign["gpu-1"] = set(taken)
    found, _cleanup = run(gpu_1=replace(READY, holders=(Holder("team", "train", gpus(1)),)))
    assert outcomes(found["gpu-1"]) == all_passed()
    assert set(found["gpu-1"].tested) == set(fake_cluster.gpus["gpu-1"]) - set(taken)


@pytest.mark.parametrize(
    ("program", "says", "check", "cause"),
    [
        (
            "run_cuda.py",
            answer(ok=False, error="GPU-x: the kernel's result is wrong"),
            "cuda",
            "the kernel's result is wrong",
        ),
        (
            "run_cuda.py",
            answer(simulated=False),
            "cuda",
            "ran on real GPUs, the inventory says they are simulated",
        ),
        ("run_cuda.py", answer(devices=[{"uuid": "GPU-strange"}] * 4), "cuda", "GPU-strange"),
        ("run_pytorch.py", answer(uuids=["GPU-strange"] * 4), "pytorch", "NVML on the host does not know"),
        (
            "run_tensorflow.py",
            answer(ok=False, error="the loss does not fall"),
            "tensorflow",
            "the loss does not fall",
        ),
        ("reach_service.py", answer(ok=False, error="does not reach it"), "network", "does not reach it"),
        ("look_around.py", answer(ok=False, error="sees /dev/nvidia0"), "isolation", "sees /dev/nvidia0"),
        (
            "hold_gpu.py",
            answer(uuid="GPU-00000000-1111-2222-3333-444444444440"),
            "allocation",
            "more than once",
        ),
    ],
)
def test_broken_answer_fails_its_check(
    run: Any, fake_cluster: Any, program: str, says: Any, check: str, cause: str
) -> None:
    fake_cluster.answers[program] = says
    found, _cleanup = run()
    finding = found["gpu-1"].findings[f"workloads.{check}"]
    assert finding.outcome is Outcome.FAILED
    assert cause in finding.cause
    assert "gpu-1" in finding.cause
    wrong = {name for name, outcome in outcomes(found["gpu-1"]).items() if outcome != all_passed().get(name)}
    also = {"workloads.oversubscription", "workloads.preemption"} if check == "allocation" else set()
    assert wrong == {f"workloads.{check}"} | also


def test_missing_image_is_an_error_and_not_a_pass(run: Any) -> None:
    found, _cleanup = run(values={"validation_images": {"cuda": "a", "tensorflow": "b"}})
    finding = found["gpu-1"].findings["workloads.pytorch"]
    assert finding.outcome is Outcome.ERROR
    assert "validation_images.pytorch" in finding.next_step


def test_interrupted_run_leaves_nothing(run: Any, fake_cluster: Any) -> None:
    def interrupt(env: dict[str, str], uuids: list[str]) -> Any:
        raise KeyboardInterrupt

    fake_cluster.answers["run_cuda.py"] = interrupt
    with pytest.raises(KeyboardInterrupt):
        run()
    assert fake_cluster.namespaces == {}


def test_interrupted_run_does_not_wait_for_other_nodes(run: Any, fake_cluster: Any) -> None:
    def interrupt(env: dict[str, str], uuids: list[str]) -> Any:
        raise KeyboardInterrupt

    ends_as(fake_cluster, ("n1-cuda-x",), "", {"phase": "Running"})
    fake_cluster.answers["run_pytorch.py"] = interrupt
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run(("gpu-1", "gpu-2"), values={"validation_timeout_pod_s": 20})
    assert time.monotonic() - begin < 15, "the other node's pod runs for 20 s"
    assert fake_cluster.namespaces == {}


def test_order_on_a_node(run: Any, fake_cluster: Any, said: list[str]) -> None:
    made: list[str] = []
    before_each_creation(fake_cluster, lambda body: made.append(body["metadata"]["name"].removeprefix("n0-")))
    run()
    early = ["network", "no-request", "visible-all", "visible-all-runtime", "its-type", "other-type"]
    assert made[0] == "gpusmith-validation", "without the class, a pod could preempt others"
    made.pop(0)
    assert made[2:10] == [*early, "nvidia-smi", "cuda"]
    assert made[10:] == ["pytorch", "tensorflow", "hold-0", "hold-1", "hold-2", "hold-3", "one-more"]
    checks = [line.split(": ")[1] for line in said]
    assert checks == [
        "nvidia-smi", "CUDA on 4 GPUs", "PyTorch on 4 GPUs", "TensorFlow on 4 GPUs", "network", "isolation",
        "placement by gpu-type", "4 pods with one GPU each", "one pod more than GPUs",
    ]  # fmt: skip


def test_nodes_at_once(run: Any, fake_cluster: Any) -> None:
    meeting = threading.Barrier(2, timeout=20)
    before_each_creation(
        fake_cluster, lambda body: body["metadata"]["name"].endswith("-cuda") and meeting.wait()
    )
    found, _ = run(("gpu-1", "gpu-2"))
    assert all(set(outcomes(row).values()) == {"passed"} for row in found.values())


def test_a_first_workload_that_did_not_run_ends_the_node(run: Any, fake_cluster: Any) -> None:
    never_starts(fake_cluster, "no such device", "n0-nvidia-smi-x")
    rows = run()[0]["gpu-1"].findings
    assert "see workloads.nvidia-smi" in rows["workloads.cuda"].cause
    assert not {"n0-cuda-x", "n0-hold-0"} & set(fake_cluster.logs)


def test_a_first_workload_that_lists_too_few_does_not(run: Any, fake_cluster: Any) -> None:
    one = "GPU 0: H100 (UUID: GPU-00000000-1111-2222-3333-444444444440)"
    ends_as(fake_cluster, ("n0-nvidia-smi-x",), one)
    found = outcomes(run()[0]["gpu-1"])
    assert {name for name, outcome in found.items() if outcome == "failed"} == {"workloads.nvidia-smi"}


def test_without_the_hosts_record_uuids_of_pods_prove_nothing(run: Any, fake_cluster: Any) -> None:
    found = run(recorded=False)[0]["gpu-1"]
    blocked = {name for name, row in found.findings.items() if row.skip is Skip.BLOCKED}
    by_uuid = ("nvidia-smi", "cuda", "pytorch", "tensorflow", "allocation")
    assert blocked == {f"workloads.{name}" for name in by_uuid}, found.findings
    assert "see nodes.reachable" in found.findings["workloads.cuda"].cause
    assert found.tested == (), "coverage counts what is proved"
    assert found.findings["workloads.oversubscription"].outcome is Outcome.PASSED


def test_without_the_hosts_record_a_failure_is_one(run: Any, fake_cluster: Any) -> None:
    fake_cluster.answers["run_cuda.py"] = answer(ok=False, error="wrong")
    assert run(recorded=False)[0]["gpu-1"].findings["workloads.cuda"].outcome is Outcome.FAILED


def test_a_node_is_looked_at_at_its_turn_and_before_each_further_work_with_gpus(run: Any) -> None:
    views = [replace(READY, labels={"look": str(n)}) for n in range(6)]
    looks = iter(views)
    found = run(look=lambda _: next(looks))[0]["gpu-1"]
    assert list(looks) == [], "before CUDA, PyTorch, TensorFlow, the measurement and the pods that hold GPUs"
    assert found.view == views[1], "coverage is of the moment when CUDA had its turn"
