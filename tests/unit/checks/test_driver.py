"""The driver, as the suite sees it."""

from __future__ import annotations

from tests.faults.fault import Record
from tests.unit.checks.judged import Facts, failing


def test_a_library_that_is_nowhere_is_missing(facts: Facts, record: Record) -> None:
    record["library"].update(cuda_version=None)
    record["library"]["files"]["cuda"]["path"] = None
    assert "the CUDA library is missing" in failing(facts(record))["nodes.driver-versions"]


def test_real_inventory_with_simulated_library_fails(facts: Facts, record: Record) -> None:
    found = failing(facts(record, gpusmith_simulated=False))
    assert "the inventory says its GPUs are real" in found["nodes.simulation-witnesses"]
