"""CDI specifications."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.checks import devices
from gpusmith.expect.cdi import plugin
from gpusmith.expect.wanted import cdi_of
from tests.faults.cdi import spec_of
from tests.faults.fault import Record
from tests.unit.checks.judged import Facts, failing
from tests.unit.records import cdi_spec


def test_a_stale_specification_that_is_shadowed_is_said_and_harms_nobody(
    facts: Facts, record: Record
) -> None:
    stale = {**cdi_spec("/etc/cdi/nvidia.yaml", 0), "driver_version": "580.95.05"}
    for device in stale["devices"]:
        device["nodes"] = []
    record["cdi"]["specs"].insert(0, stale)
    of = facts(record)
    assert failing(of) == {}
    assert devices.cdi_evidence(of.record)["shadowed"] == {
        "/etc/cdi/nvidia.yaml": "580.95.05 (by /var/run/cdi/nvidia.yaml)"
    }


def test_the_device_plugins_file_is_written_anew_by_whose_plugin_it_is(facts: Facts, record: Record) -> None:
    record["cdi"]["plugin_specs"][0].update(problem="no JSON", devices=[])
    (ours,) = devices.cdi(facts(record))
    assert "kubectl -n gpusmith-system delete pod" in ours.next_step
    (theirs,) = devices.cdi(facts(record, gpu_operands_device_plugin="existing"))
    assert "kubectl" not in theirs.next_step
    assert "owner" in theirs.next_step


@pytest.mark.parametrize(
    "change",
    [
        {"gpu_operands_device_plugin": "existing"},
        {"joined": False},
        {"gpus": []},
        {"error": "GPU is lost"},
    ],
    ids=str,
)
def test_a_file_that_nobody_has_to_write_is_not_missed(
    change: dict[str, Any], facts: Facts, record: Record
) -> None:
    record["cdi"]["plugin_specs"] = []
    record["kubernetes"]["joined"] = change.pop("joined", True)
    record["nvml"]["gpus"] = change.pop("gpus", record["nvml"]["gpus"])
    for gpu in record["nvml"]["gpus"]:
        gpu["error"] = change.get("error")
    change.pop("error", None)
    of = facts(record, **change)
    assert plugin(of.record, cdi_of(of.host)) == []


def test_names_that_conflict_below_are_refused_above_as_well(facts: Facts, record: Record) -> None:
    record["cdi"]["specs"][:0] = [cdi_spec("/etc/cdi/a.yaml", 0), cdi_spec("/etc/cdi/b.yaml", 0)]
    assert "both have" in failing(facts(record))["nodes.cdi"]


def test_mig_devices_in_the_specification_of_whole_gpus_are_left_over(facts: Facts, record: Record) -> None:
    spec_of(record)["devices"].extend([{"name": "0:1", "nodes": []}, {"name": "MIG-1", "nodes": []}])
    assert "'MIG-1', which is no GPU of the node" in failing(facts(record))["nodes.cdi"]
