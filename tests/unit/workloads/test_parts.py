"""Workloads on a node whose GPUs are divided by MIG: a pod gets one instance, and all of them together cover every GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gpusmith.checks.cluster import ClusterFacts
from gpusmith.checks.findings import Outcome
from gpusmith.checks.gpu_capacity import gpu_capacity
from gpusmith.checks.gpu_owners import gpu_owners
from gpusmith.cluster.holders import Holder
from gpusmith.names import LAYOUT_LABEL
from gpusmith.wanted.layouts import instances
from gpusmith.wanted.node import NodeWanted
from gpusmith.wanted.offers import Device, Offer
from gpusmith.workloads import allocation, oversubscription
from gpusmith.workloads.judge import Expected
from tests.unit.hosts import UUIDS
from tests.unit.workloads import conftest
from tests.unit.workloads.answers import READY, all_passed, outcomes

LAYOUT = instances("3g.40gb", 2)
HALVES = Offer("nvidia.com/mig-3g.40gb", 8, 4)
PARTS = {f"MIG-{place}{uuid[5:]}": uuid for uuid in UUIDS for place in (0, 1)}
COUNTS = {HALVES.resource: HALVES.count}
OF_PARTS = replace(READY, capacity=COUNTS, allocatable=COUNTS, labels={LAYOUT_LABEL: LAYOUT.label})


@pytest.fixture(autouse=True)
def halves(monkeypatch: pytest.MonkeyPatch, fake_cluster: Any) -> None:
    """Every node hands out two halves of each of four GPUs."""
    fake_cluster.resource = HALVES.resource
    fake_cluster.gpus = {"gpu-1": list(PARTS), "gpu-2": list(PARTS)}
    devices = frozenset(Device(uuid, gpu) for uuid, gpu in PARTS.items())
    monkeypatch.setattr(conftest, "devices", lambda _: devices)


def test_all_parts_are_used_and_their_gpus_count_as_tested(run: Callable[..., Any]) -> None:
    found, _ = run(gpu_1=OF_PARTS)
    assert outcomes(found["gpu-1"]) == all_passed(), found["gpu-1"].findings
    assert sorted(found["gpu-1"].tested) == sorted(UUIDS)
    evidence = found["gpu-1"].findings["workloads.allocation"].evidence
    assert len(evidence["held"]) == 8
    assert evidence["shares"] == {"of_each_gpu": 2, "gpus": 4, "pods": dict.fromkeys(sorted(UUIDS), 2)}


def test_what_a_pod_gets_is_called_an_instance(run: Callable[..., Any], said: list[str]) -> None:
    found = run(gpu_1=OF_PARTS)[0]["gpu-1"].findings
    assert [line.split(": ")[1] for line in said] == [
        "nvidia-smi", "CUDA on 8 MIG instances", "PyTorch on 1 MIG instances", "TensorFlow on 1 MIG instances", "network",
        "isolation", "placement by gpu-type", "8 pods with one MIG instance each", "one pod more than MIG instances",
    ]  # fmt: skip
    assert found["workloads.pytorch"].evidence["notes"] == [
        "in one pod with one MIG instance of one GPU: a pod gets no more of this node"
    ]
    real = run(values={"gpusmith_simulated": False}, gpu_1=OF_PARTS)[0]["gpu-1"].findings
    assert "pods get MIG instances, so that no rate is a GPU's" in real["workloads.performance"].cause


A, B = "GPU-a", "GPU-b"
PAIR = Expected(
    "gpu-1", True, frozenset(Device(f"MIG-{place}{gpu}", gpu) for gpu in (A, B) for place in (0, 1))
)


@pytest.mark.parametrize(
    ("given", "causes"),
    [
        (["MIG-0GPU-a", "MIG-1GPU-a", "MIG-0GPU-b", "MIG-1GPU-b"], []),
        # Others hold the rest.
        (["MIG-0GPU-a", "MIG-1GPU-b"], []),
        (["MIG-0GPU-a", "MIG-0GPU-a"], ["MIG-0GPU-a was given out more than once"]),
        (["MIG-0GPU-a", "GPU-a"], ["saw GPU-a, which NVML on the host does not know"]),
        (["MIG-0GPU-a", "MIG-0GPU-a", "MIG-1GPU-a"], ["more than once", "GPU-a serves 3 of them, and each GPU has 2 MIG i"]),
    ],
)  # fmt: skip
def test_each_pod_has_an_instance_of_its_own(given: list[str], causes: list[str]) -> None:
    pods = {f"hold-{n}": uuid for n, uuid in enumerate(given)}
    judged = allocation.judge(PAIR, pods, len(given), LAYOUT, 2)
    assert len(judged.problems) == len(causes), judged.problems
    assert all(cause in problem.cause for cause, problem in zip(causes, judged.problems, strict=True))
    blind = allocation.judge(replace(PAIR, devices=None), pods, len(given), LAYOUT, 2)
    assert len(blind.problems) == (len(set(given)) < len(given)), (
        "without the host's record, each must be a distinct one"
    )


def test_a_gpu_with_more_instances_than_it_is_to_have_is_named() -> None:
    three = replace(
        PAIR, devices=frozenset({*(PAIR.devices or ()), Device("MIG-2GPU-a", A)} - {Device("MIG-1GPU-b", B)})
    )
    pods = {str(n): uuid for n, uuid in enumerate(sorted(three.uuids or ()))}
    (problem,) = allocation.judge(three, pods, 4, LAYOUT, 2).problems
    assert "GPU-a serves 3 of them, GPU-b serves 1 of them, and each GPU has 2 MIG instances" in problem.cause


def test_the_waiting_pod_gets_exactly_the_instance_that_was_freed() -> None:
    held = {"a": "MIG-0GPU-a", "b": "MIG-1GPU-a"}
    assert not oversubscription.judge(PAIR, held, "MIG-0GPU-a", "MIG-0GPU-a", "", LAYOUT).problems
    (problem,) = oversubscription.judge(PAIR, held, "MIG-0GPU-a", "MIG-1GPU-a", "", LAYOUT).problems
    assert (
        "MIG instance MIG-0GPU-a was freed, but the waiting pod got MIG-1GPU-a which another pod holds."
        in problem.cause
    )


def test_the_cluster_tier_passes_such_a_node(host: Callable[..., NodeWanted]) -> None:
    facts = ClusterFacts(host("gpu-1"), "gpu-1", OF_PARTS)
    assert [*gpu_capacity(facts), *gpu_owners(facts)] == []
    both = {**COUNTS, "nvidia.com/gpu": 4}
    also_whole = replace(OF_PARTS, capacity=both, allocatable=both)
    (problem,) = gpu_capacity(replace(facts, view=also_whole))
    assert "also offers 4 of 'nvidia.com/gpu'" in problem.cause


def test_parts_that_others_hold_are_left_alone(run: Callable[..., Any], fake_cluster: Any) -> None:
    fake_cluster.foreign = {"gpu-1": set(list(PARTS)[:3])}
    found, _ = run(gpu_1=replace(OF_PARTS, holders=(Holder("team", "train", {HALVES.resource: 3}),)))
    assert outcomes(found["gpu-1"]) == all_passed()
    assert len(found["gpu-1"].findings["workloads.allocation"].evidence["held"]) == 5
    assert sorted(found["gpu-1"].tested) == sorted(UUIDS[1:]), "the second GPU has one free half"


def test_a_part_that_the_host_does_not_know_fails(run: Callable[..., Any], fake_cluster: Any) -> None:
    fake_cluster.answers["hold_gpu.py"] = lambda env, uuids: {
        **fake_cluster.good(env, uuids), "uuid": f"{uuids[0]}x",
    }  # fmt: skip
    found, _ = run(gpu_1=OF_PARTS)
    finding = found["gpu-1"].findings["workloads.allocation"]
    assert finding.outcome is Outcome.FAILED
    assert "which NVML on the host does not know" in finding.cause
