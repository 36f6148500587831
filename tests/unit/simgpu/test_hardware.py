"""The simulated machines' hardware and the table of GPU models behind it."""

from __future__ import annotations

from typing import cast

import pytest
import yaml
from gpulab.simgpu.hardware import describe, models
from simgpu import driver
from simgpu.hardware import Machine

from gpusmith.errors import InputError
from gpusmith.paths import repo_root

NUMBERS = (
    "arch",
    "memory_mib",
    "power_w",
    "sms",
    "pci_device",
    "pci_subsystem",
    "pcie_gen",
    "pcie_width",
    "nvlinks",
)


def test_same_machine_same_hardware() -> None:
    assert describe("h100-sxm", 4, "gpu-1") == describe("h100-sxm", 4, "gpu-1")


def test_uuids_are_unique_over_machines() -> None:
    uuids = [gpu["uuid"] for name in ("gpu-1", "gpu-2") for gpu in describe("h100-sxm", 8, name)["gpus"]]
    assert len(set(uuids)) == 16


def test_minor_order_differs_from_bus_order_on_hgx_boards() -> None:
    buses = [gpu["pci"] for gpu in describe("h100-sxm", 4, "gpu-1")["gpus"]]
    assert buses != sorted(buses)


@pytest.mark.parametrize(("model", "switches"), [("a100-sxm-80", 6), ("h100-sxm", 4), ("b200", 0), ("t4", 0)])
def test_nvswitches_are_those_of_the_board(model: str, switches: int) -> None:
    assert len(describe(model, 8, "gpu-1")["nvswitches"]) == switches


@pytest.mark.parametrize(("model", "managers"), [("b200", 4), ("h100-sxm", 0), ("l40s", 0)])
def test_switches_of_nvlink_5_are_managed_by_network_functions(model: str, managers: int) -> None:
    assert len(describe(model, 8, "gpu-1")["switch_managers"]) == managers


@pytest.mark.parametrize("model", ["h100-sxm", "b200"])
def test_a_machine_without_gpus_has_no_switches(model: str) -> None:
    machine = describe(model, 0, "gpu-1")
    assert machine["gpus"] == machine["nvswitches"] == machine["switch_managers"] == []


def test_unknown_model_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"'h1000'.*h100-sxm"):
        describe("h1000", 4, "gpu-1")


@pytest.mark.parametrize("model", [key for key, row in models().items() if not row["refused"]])
def test_the_simulated_driver_takes_every_model(model: str) -> None:
    machine = describe(model, 2, "gpu-1")
    state = driver.fresh_state(cast(Machine, machine))
    assert state.values["name"] == machine["name"]
    assert all(value not in ("", "None") for key, value in state.values.items() if key in NUMBERS), (
        state.values
    )


def test_the_lab_has_no_machine_with_a_model_that_is_refused() -> None:
    with pytest.raises(InputError, match="arm64"):
        describe("gh200", 1, "gpu-1")


def test_a_model_that_is_no_row_differs_by_its_device_id_alone() -> None:
    own, invented = (describe(model, 2, "gpu-1") for model in ("rtx-pro-6000", "rtx-pro-6000@2bbf"))
    assert (own["pci_device_id"], invented["pci_device_id"]) == ("0x2bb5", "0x2bbf")
    assert {key for key, value in own.items() if value != invented[key]} == {"pci_device_id", "model"}


@pytest.mark.parametrize("device", ["", "2bb", "0x2bbf"])
def test_a_device_id_has_four_digits(device: str) -> None:
    with pytest.raises(InputError, match="no PCI device ID"):
        describe(f"rtx-pro-6000@{device}", 2, "gpu-1")


@pytest.mark.parametrize("gpus", [-1, 9])
def test_impossible_number_of_gpus(gpus: int) -> None:
    with pytest.raises(InputError, match=str(gpus)):
        describe("t4", gpus, "gpu-1")


def test_every_model_names_dated_sources() -> None:
    content = yaml.safe_load((repo_root() / "data" / "gpus.yml").read_text())
    columns = {frozenset(row) - {"also_named"} for row in models().values()}
    assert len(columns) == 1, "rows have different fields"
    for key, row in models().items():
        assert row["sources"], key
        for source in row["sources"]:
            # No date says that the page was not read: that must be said, not left out.
            assert "date" in content["sources"][source], (key, source)
        assert any(content["sources"][source]["date"] for source in row["sources"]), key
