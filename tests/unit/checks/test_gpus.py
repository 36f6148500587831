"""Which GPUs there are, and that nodes are alike."""

from __future__ import annotations

import copy

from tests.faults import Record, device, not_loaded
from tests.unit.checks.judged import Facts, failing


def test_two_names_of_one_machine_prove_one(facts: Facts, record: Record) -> None:
    found = failing(facts(record, fleet={"gpu-2": copy.deepcopy(record)}))
    assert set(found) == {"nodes.gpu-count", "nodes.identity"}
    assert "also those of node 'gpu-2'" in found["nodes.gpu-count"]
    assert "one machine" in found["nodes.gpu-count"]


def test_a_mode_that_the_driver_was_told_is_right(facts: Facts, record: Record) -> None:
    record["dev"].update(file_mode=0o660, file_gid=44)
    for node in record["dev"]["nodes"].values():
        node.update(mode=0o660, gid=44)
    assert failing(facts(record)) == {}
    device("/dev/nvidia3", gid=0)(record)
    cause = failing(facts(record))["nodes.gpu-count"]
    assert "/dev/nvidia3 of GPU 2" in cause
    assert "0:0" in cause
    assert "0:44" in cause


def test_without_a_known_major_any_uvm_character_device_will_do(facts: Facts, record: Record) -> None:
    record["dev"]["uvm_major"] = None
    assert failing(facts(record)) == {}


def test_nodes_of_a_driver_that_is_not_loaded_are_no_matter(facts: Facts, record: Record) -> None:
    not_loaded(record)
    assert "device node" not in failing(facts(record))["nodes.gpu-count"]


def test_unknown_model_has_nothing_to_compare_with(facts: Facts, record: Record) -> None:
    assert "data/gpus.yml" in failing(facts(record, gpusmith_gpu_model="x100"))["nodes.gpu-model"]
