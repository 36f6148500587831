"""Workloads on a node that hands GPUs out by claims: the same ones, and each pod has a claim."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gpusmith.cluster.dra import DraDevice, Kind
from gpusmith.cluster.holders import Holder
from gpusmith.names import DEVICE_CLASS, LAYOUT_LABEL
from gpusmith.workloads.targets import Target, why_not
from tests.unit.fake_cluster import FakeCluster
from tests.unit.hosts import UUIDS, make_host
from tests.unit.workloads.answers import READY, all_passed, outcomes

COUNTS = {DEVICE_CLASS: 4, "nvidia.com/gpu": 0}
BY_CLAIMS = replace(READY, labels={LAYOUT_LABEL: "dra"}, capacity=COUNTS, allocatable=COUNTS)
Run = Callable[..., Any]


def test_all_workloads_get_their_gpus_by_claims(run: Run, fake_cluster: FakeCluster) -> None:
    found = run(gpu_1=BY_CLAIMS)[0]["gpu-1"]
    assert outcomes(found) == all_passed(), found.findings
    assert sorted(found.tested) == UUIDS
    assert {fake_cluster.templates[f"n0-{name}"] for name in ("nvidia-smi", "cuda", "pytorch")} == {4}
    assert {count for name, count in fake_cluster.templates.items() if "-hold-" in name} == {1}
    assert "n0-network" not in fake_cluster.templates
    said = found.findings["workloads.oversubscription"].evidence["pending"]
    assert "cannot allocate all claims" in said


def test_claims_of_others_are_left_alone(run: Run, fake_cluster: FakeCluster) -> None:
    device = DraDevice(DEVICE_CLASS, "gpu-1", "gpu-0", Kind.GPU, UUIDS[0], claim="theirs")
    theirs = replace(BY_CLAIMS, holders=(Holder("team", "train", {}, 1, (device,)),), claimable=(device,))
    fake_cluster.foreign = {"gpu-1": [UUIDS[0]]}
    found = run(gpu_1=theirs)[0]["gpu-1"]
    assert outcomes(found) == all_passed(), found.findings
    assert sorted(found.tested) == UUIDS[1:]


@pytest.mark.parametrize(
    ("managed", "says"), [(True, ""), (False, "hands out whole GPUs by ResourceClaims.")]
)
def test_without_an_inventory_nothing_is_claimed(managed: bool, says: str) -> None:
    target = Target(replace(make_host("gpu-1"), managed=managed), BY_CLAIMS, None)
    why = why_not(target)
    assert (why.reason if why else "").endswith(says)
    assert bool(why) is not managed
