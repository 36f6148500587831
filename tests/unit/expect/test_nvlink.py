"""Boards whose NVLink switches are managed by network functions: subnet manager, modules of the kernel, and what brings them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gpusmith.checks import services
from gpusmith.expect import forecast, packages
from gpusmith.expect.choice import driver_of
from gpusmith.expect.wanted import all_models
from gpusmith.node.facts import NodeFacts
from gpusmith.node.records import parse
from tests.unit.expect.role_plans import driver_plan, driver_removal
from tests.unit.expect.test_driver import LAYOUTS, ROW, SETTINGS, ready
from tests.unit.families.systems import SYSTEMS, value
from tests.unit.hosts import make_host

FILE = "/etc/modules-load.d/gpusmith-nvlink.conf"
WITHOUT = {"nvidia": [{key: value for key, value in ROW.items() if not key.startswith("subnet_manager")}]}
ASKED = {**SETTINGS, "fabric_files": {FILE: "ib_umad"}}


def board(gpus: int = 8, managers: int = 4) -> dict[str, Any]:
    """A machine with B200 GPUs that was set up, but for their fabric."""
    record = copy.deepcopy(ready(gpus))
    record["pci"] = {
        "gpus": [{"address": f"0000:{n + 1:02x}:00.0", "device_id": "10de:2901"} for n in range(gpus)],
        "nvswitches": [],
        "switch_managers": [
            {"address": f"0000:8{n}:00.0", "device_id": "15b3:1021", "driver": "mlx5_core"}
            for n in range(managers)
        ],
    }
    record["kernels"] = [{"release": record["host"]["kernel"], "module": "m", "lacking": []}]
    record["system"] = {"modules": {"mlx5_ib": True, "ib_umad": True}}
    return record


def complete() -> dict[str, Any]:
    """The same, with its fabric."""
    record = board()
    record["packages"]["nvlsm"] = {"version": "2025.06.11-1", "held": True}
    record["packages"]["infiniband-diags"] = {"version": "50.0-2", "held": False}
    record["managed_files"][FILE] = "9a7c6afbe1a6ddd9ef30e4a4eef7b8de9e2f9bbb4e9f4e3f5e7b"
    return record


def plan(record: dict[str, Any], rows: Any = None, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = driver_plan(record, {**ASKED, **more}, rows or LAYOUTS)
    return found


def complete_plan(record: dict[str, Any]) -> dict[str, Any]:
    """Whose file is as it shall be."""
    return plan(record, fabric_files={})


def test_the_fabric_manager_gets_its_subnet_manager_and_the_tool_that_finds_switches() -> None:
    found = plan(board())
    assert found["fabric_manager"]
    assert found["other_packages"] == ["nvlsm"]
    assert found["tools"] == ["infiniband-diags"]
    assert FILE in found["files"]
    assert "package 'nvlsm' is not installed" in found["problems"]
    assert "package 'infiniband-diags' is not installed" in found["problems"]
    assert "packages" in found["cures"]


def test_a_board_as_wanted_is_not_touched() -> None:
    found = complete_plan(complete())
    assert found["problems"] == found["cures"] == found["tools"] == found["fabric_modules"] == []


@pytest.mark.parametrize("name", ["mlx5_ib", "ib_umad"])
def test_a_module_that_is_not_loaded_is_loaded(name: str) -> None:
    record = complete()
    record["system"]["modules"][name] = False
    found = complete_plan(record)
    assert found["fabric_modules"] == [name]
    assert found["cures"] == ["services"]
    assert f"module '{name}' is not loaded" in found["problems"][0]
    assert forecast.of_role("nvidia_driver", found)["changes"]["modules"] == [name]


def test_a_module_that_boots_may_not_load_is_a_matter_for_a_person() -> None:
    record = complete()
    rows = {"ib_umad": {"file": FILE, "forbidden_by": "/etc/modprobe.d/x.conf"}}
    record["boot"] = {"modules": rows, "sysctl": {}, "swap_units": []}
    found = complete_plan(record)
    assert found["cures"] == ["person"]
    assert "'/etc/modprobe.d/x.conf' keeps boots from loading it" in found["problems"][0]


def test_a_subnet_manager_that_is_not_held_is_held() -> None:
    record = complete()
    record["packages"]["nvlsm"]["held"] = False
    assert complete_plan(record)["unheld"] == ["nvlsm"]


@pytest.mark.parametrize(
    ("gpus", "managers", "setting", "needed"),
    [
        (8, 0, "auto", True),
        (4, 4, "auto", True),
        # Its host manages the switches.
        (4, 0, "auto", False),
        (8, 4, "disabled", False),
    ],
)
def test_who_has_a_fabric_manager_has_its_subnet_manager(
    gpus: int, managers: int, setting: str, needed: bool
) -> None:
    found = plan(board(gpus, managers), fabric_manager=setting)
    assert found["fabric_manager"] is needed
    assert ("nvlsm" in found["other_packages"]) is needed
    assert (FILE in found["files"]) is needed


def test_boards_with_switches_on_pci_get_none_of_it() -> None:
    found = plan(ready())
    assert found["fabric_manager"]
    assert found["other_packages"] == found["tools"] == found["fabric_modules"] == found["problems"] == []


def test_a_layout_without_a_subnet_manager_is_refused_by_name() -> None:
    refused = plan(board(), WITHOUT)["refused"]
    assert "NVLink subnet manager" in refused
    assert "nvidia_driver_package_layout: nvidia" in refused


@pytest.mark.parametrize("system", SYSTEMS)
def test_nvidias_repository_has_it_for_every_system(system: str) -> None:
    rows = value("nvidia_driver", system, "__nvidia_driver_layouts")
    for version in ("575.57.08", "580.178.04", "595.91.07"):
        found = plan(board(), rows, version=version)
        assert found["refused"] == ""
        assert "nvlsm" in found["other_packages"]
        assert found["tools"] == ["infiniband-diags"]


@pytest.mark.parametrize(("system", "version"), [("Debian 12", "535.261.03"), ("Ubuntu 24", "580.178.04")])
def test_the_distributions_own_packages_are_refused(system: str, version: str) -> None:
    rows = value("nvidia_driver", system, "__nvidia_driver_layouts")
    assert plan(board(), rows, version=version, package_layout="distribution")["refused"]


def test_the_subnet_manager_goes_with_the_driver_and_tools_of_others_stay() -> None:
    settings = {"node": "gpu-1", "version": "", "files": {}}
    found = driver_removal(complete(), settings, LAYOUTS)
    assert "nvlsm" in found["others"]
    assert "infiniband-diags" not in {*found["others"], *found["packages"]}


# --- the suite -------------------------------------------------------------------------------------------------------


def fails(record: dict[str, Any]) -> str:
    facts = NodeFacts(make_host(gpusmith_gpu_model="b200"), parse(record), all_models()["b200"], {})
    return " ".join(problem.cause for problem in services.fabric(facts))


def test_the_suite_passes_a_board_as_wanted() -> None:
    assert fails(complete()) == ""


def test_the_suite_fails_a_board_without_its_subnet_manager() -> None:
    record = complete()
    del record["packages"]["nvlsm"]
    assert "'nvlsm'" in fails(record)


def test_the_suite_fails_a_board_whose_modules_are_not_loaded() -> None:
    record = complete()
    record["system"]["modules"]["ib_umad"] = False
    assert "'ib_umad' is not loaded" in fails(record)


def test_the_suite_fails_a_board_whose_switches_nothing_manages() -> None:
    record = complete()
    record["pci"]["switch_managers"] = []
    assert "no network function manages" in fails(record)


def test_the_suite_wants_the_subnet_manager_held_where_it_is_needed() -> None:
    record = complete()
    record["packages"]["nvlsm"]["held"] = False
    for each, held in ((record, False), ({**record, "pci": ready()["pci"]}, True)):
        parsed = parse(each)
        wanted = driver_of(make_host(gpusmith_gpu_model="b200"), all_models()["b200"], parsed)
        assert ("nvlsm" not in packages.to_hold(parsed, wanted)) is held
