"""Workloads on a node that hands out parts of its GPUs: an offer and its devices are all that differs from whole ones."""

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
from gpusmith.wanted.layouts import Layout
from gpusmith.wanted.node import NodeWanted
from gpusmith.wanted.offers import Device, Offer
from tests.unit.hosts import UUIDS
from tests.unit.workloads import conftest
from tests.unit.workloads.answers import READY, all_passed, outcomes

HALVES = Offer("nvidia.com/mig-3g.40gb", 8, 4)
PARTS = {f"MIG-{place}{uuid[5:]}": uuid for uuid in UUIDS for place in (0, 1)}
COUNTS = {HALVES.resource: HALVES.count}
OF_PARTS = replace(READY, capacity=COUNTS, allocatable=COUNTS)


@pytest.fixture(autouse=True)
def halves(monkeypatch: pytest.MonkeyPatch, fake_cluster: Any) -> None:
    """Every node hands out two halves of each of four GPUs."""
    monkeypatch.setattr(Layout, "offers", lambda *_: (HALVES,))
    fake_cluster.resource = HALVES.resource
    fake_cluster.gpus = {"gpu-1": list(PARTS)}
    devices = frozenset(Device(uuid, gpu) for uuid, gpu in PARTS.items())
    monkeypatch.setattr(conftest, "devices", lambda _: devices)


def test_all_parts_are_used_and_their_gpus_count_as_tested(run: Callable[..., Any]) -> None:
    found, _ = run(gpu_1=OF_PARTS)
    assert outcomes(found["gpu-1"]) == all_passed(), found["gpu-1"].findings
    assert sorted(found["gpu-1"].tested) == sorted(UUIDS)
    assert len(found["gpu-1"].findings["workloads.allocation"].evidence["held"]) == 8


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
