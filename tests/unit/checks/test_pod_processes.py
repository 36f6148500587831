"""Pods compute on GPUs that they were given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpusmith.checks.findings import CannotAsk, NotApplicable
from gpusmith.checks.pod_processes import pod_processes
from gpusmith.node.facts import NodeFacts
from tests.unit.hosts import UUIDS
from tests.unit.records import Record, divided_record

Facts = Callable[..., NodeFacts]
UID = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"


@pytest.mark.parametrize(
    ("changes", "devices", "claimants"),
    [
        ({}, [UUIDS[1]], []),
        ({}, [UUIDS[0], UUIDS[1]], []),
        # A share, and a part whose GPU is not known here.
        ({}, [f"{UUIDS[1]}::3"], []),
        ({}, ["MIG-11111111-2222-3333-4444-555555555555"], []),
        # What is given otherwise, or serves all.
        ({}, [], [UID]),
        ({"name": "nvidia-cuda-mps-server"}, [], []),
        ({"pod": False, "pod_uid": None}, [], []),
    ],
)  # fmt: skip
def test_who_may_compute(
    facts: Facts, record: Record, changes: dict[str, Any], devices: list[str], claimants: list[str]
) -> None:
    record["nvml"]["gpus"][1]["processes"] = [
        {"pid": 8, "name": "train", "pod": True, "pod_uid": UID, **changes}
    ]
    record["allocations"] = {"devices": {UID: devices} if devices else {}, "claimants": claimants}
    assert pod_processes(facts(record)) == []


def test_who_has_an_instance_computes_on_its_gpu(facts: Facts) -> None:
    record = divided_record()
    gpus = record["nvml"]["gpus"]
    gpus[1]["processes"] = [{"pid": 8, "name": "train", "pod": True, "pod_uid": UID}]
    record["allocations"] = {"devices": {UID: [gpus[1]["instances"][1]["uuid"]]}, "claimants": []}
    assert pod_processes(facts(record)) == []
    record["allocations"]["devices"][UID] = [gpus[2]["instances"][0]["uuid"]]
    assert len(pod_processes(facts(record))) == 1


def test_without_the_kubelets_notes_nothing_is_proved(facts: Facts, record: Record) -> None:
    record["allocations"] = None
    with pytest.raises(NotApplicable):
        pod_processes(facts(record))
    record["errors"] = ["the kubelet's checkpoint of devices is not understood: KeyError('Data')"]
    with pytest.raises(CannotAsk, match="nobody knows which pods were given which GPUs"):
        pod_processes(facts(record))
