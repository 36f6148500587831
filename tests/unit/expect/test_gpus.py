"""Which models a machine's GPUs are, and what is said of those that are no row."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gpusmith.data import compatibility, models
from gpusmith.expect import gpus
from gpusmith.node.records import parse
from tests.unit.records import Record, healthy_record

ROWS = models.load()


def with_gpus(*devices: str, name: str | None = None) -> Record:
    record = healthy_record()
    for gpu, nvml, device in zip(record["pci"]["gpus"], record["nvml"]["gpus"], devices, strict=True):
        gpu["device_id"], nvml["name"] = device, name
    return record


def notes(*devices: str, name: str | None = None, setting: str = "auto") -> list[str]:
    return gpus.notes(parse(with_gpus(*devices, name=name)), ROWS, setting)


@pytest.mark.parametrize("key", sorted(ROWS))
def test_the_ranges_of_pci_ids_agree_with_the_rows(key: str) -> None:
    row, known = ROWS[key], compatibility.load()
    assert known.architecture_of(row.pci_device_id) == row.architecture
    whole = known.architectures[row.architecture].open_module
    # Grace needs them where others of its architecture have a choice.
    assert row.open_module in (whole, "required")


def test_no_two_architectures_have_one_pci_id() -> None:
    ranges = sorted(each for row in compatibility.load().architectures.values() for each in row.pci_devices)
    assert all(first <= last for first, last in ranges)
    assert all(before[1] < after[0] for before, after in pairwise(ranges))


def test_nothing_is_said_of_a_machine_whose_gpus_are_one_row() -> None:
    assert notes(*["10de:2330"] * 4) == []


def test_a_model_that_is_no_row_is_named_with_what_was_chosen() -> None:
    (said,) = notes(*["10de:2bb6"] * 4, name="NVIDIA RTX PRO 6000D")
    assert said.startswith("NVIDIA RTX PRO 6000D (10de:2bb6): no row of data/gpus.yml: no baseline")
    assert "architecture 'blackwell'" in said
    (said,) = notes(*["10de:2bb6"] * 4, setting="open")
    assert said.startswith("GPU 10de:2bb6: ")
    assert "nvidia_driver_module_flavour" in said


def test_a_newer_gpu_gets_what_the_newest_need_and_says_so() -> None:
    (said,) = notes(*["10de:ffff"] * 4)
    assert "no architecture is known" in said
    assert "open kernel module" in said


def test_several_models_are_counted() -> None:
    (said,) = notes("10de:2331", "10de:2331", "10de:27b8", "10de:27b8")
    assert "2 x h100-pcie, 2 x l4" in said
    assert gpus.row_of(parse(with_gpus("10de:2331", "10de:2331", "10de:27b8", "10de:27b8")), ROWS) is None


def test_one_row_is_known_without_a_declared_model() -> None:
    assert gpus.row_of(parse(with_gpus(*["10de:27b8"] * 4)), ROWS) == ROWS["l4"]
    assert gpus.row_of(parse(with_gpus(*["10de:2bb6"] * 4)), ROWS) is None
