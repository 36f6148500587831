"""NVLinks: what a board has, what a virtual machine is given, and what a site has switched off."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.checks.findings import NotApplicable
from gpusmith.checks.nvlinks import evidence
from tests.faults.fault import Record
from tests.unit.checks.judged import RECORD_CHECKS, Facts
from tests.unit.records import divided_record

check = RECORD_CHECKS["nodes.nvlinks"]
A100_PCIE, X9 = "10de:20b5", "10de:ffff"


def all_gpus(record: Record, device_id: str = "", **changes: Any) -> None:
    for gpu in record["nvml"]["gpus"]:
        gpu.update(changes)
    for device in record["pci"]["gpus"]:
        device["device_id"] = device_id or device["device_id"]


def test_every_gpu_of_a_board_has_all_of_them(facts: Facts, record: Record) -> None:
    assert check(facts(record)) == []
    uuid = record["nvml"]["gpus"][0]["uuid"]
    assert evidence(facts(record))["nvlinks"][uuid] == {"up": 18, "of": 18, "mbps": [26562]}
    all_gpus(record, nvlinks=None, nvlink_mbps=None, unsupported=["nvlinks"])
    assert len(check(facts(record))) == 4, "NVML must not say 'not supported' of a model that has them"


def test_a_library_that_does_not_tell_rates_proves_the_number(facts: Facts, record: Record) -> None:
    all_gpus(record, nvlink_mbps=None)
    assert check(facts(record)) == []
    all_gpus(record, nvlink_mbps=[0] * 18)
    assert check(facts(record)) == []


@pytest.mark.parametrize(
    ("device_id", "changes", "says"),
    [
        (A100_PCIE, {"nvlinks": [True] * 4 + [False] * 8}, "nothing says how many .*; up are 4 of 12"),
        (X9, {"nvlinks": [True] * 6}, "nothing says how many .*; up are 6 of 6"),
        (X9, {"nvlinks": None, "unsupported": ["nvlinks"]}, "NVML does not support NVLinks"),
    ],
    ids=["bridge", "no row", "none"],
)
def test_without_a_number_nothing_is_judged(
    facts: Facts, record: Record, device_id: str, changes: dict[str, Any], says: str
) -> None:
    all_gpus(record, device_id, **changes)
    with pytest.raises(NotApplicable, match=says):
        check(facts(record, gpusmith_gpu_model=None))


def test_a_part_of_a_board_in_a_virtual_machine_has_what_it_was_given(facts: Facts, record: Record) -> None:
    record["host"]["virtual"] = True
    all_gpus(record, nvlinks=[False] * 18, nvlink_mbps=[0] * 18)
    with pytest.raises(NotApplicable, match="up are 0 of 18"):
        check(facts(record))


def test_a_site_may_switch_them_off(facts: Facts, record: Record) -> None:
    all_gpus(record, nvlinks=[False] * 18)
    assert len(check(facts(record))) == 4
    record["module"]["parameters"] = {"NvLinkDisable": "1"}
    with pytest.raises(NotApplicable, match="NvLinkDisable"):
        check(facts(record))


def test_links_of_divided_gpus_are_not_judged(facts: Facts) -> None:
    record = divided_record()
    record["nvml"]["gpus"][1]["nvlinks"] = [False] * 18
    with pytest.raises(NotApplicable, match="MIG instances, into which its GPUs are divided, use no NVLinks"):
        RECORD_CHECKS["nodes.nvlinks"](facts(record))
    record["nvml"]["gpus"][0]["mig_mode"] = "disabled"
    assert len(RECORD_CHECKS["nodes.nvlinks"](facts(record))) == 1
