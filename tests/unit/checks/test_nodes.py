"""Checks of the nodes tier: one healthy record, and one for each way in which a node can be broken."""

from __future__ import annotations

import pytest

from gpusmith.errors import ToolError
from gpusmith.node.records import parse
from tests.faults import FAULTS
from tests.faults.fault import Record
from tests.unit.checks.judged import RECORD_CHECKS, Facts, failing


def test_healthy_node_passes_everything(facts: Facts, record: Record) -> None:
    assert failing(facts(record)) == {}
    for name, check in RECORD_CHECKS.items():
        assert list(check(facts(record))) == [], name


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_caught_and_named(name: str, facts: Facts, record: Record) -> None:
    fault = FAULTS[name]
    fault.breaks(record)
    found = failing(facts(record))
    assert fault.check in found
    assert "gpu-1" in found[fault.check]
    for words in fault.says:
        assert words in found[fault.check]
    assert set(found) <= {fault.check} | fault.others


@pytest.mark.parametrize(
    "hole",
    [
        "pci",
        "module",
        "dev",
        "services",
        "containerd",
        "cdi",
        "nvml",
        "library",
        "packages",
        "system",
        "boot",
    ],
)
def test_hole_in_the_record_is_no_pass(hole: str, facts: Facts, record: Record) -> None:
    record[hole] = None
    assert failing(facts(record))


def test_record_of_another_schema_is_refused(record: Record) -> None:
    record["schema"] = "gpusmith.probe/9"
    with pytest.raises(ToolError, match=r"gpusmith\.probe/9"):
        parse(record)
