from __future__ import annotations

import copy
from typing import Any

import pytest

from gpusmith.checks import services
from gpusmith.checks.findings import NotApplicable
from gpusmith.expect import driver, driver_needs, fabric, layouts, wanted
from gpusmith.expect.wanted import Driver, all_models
from gpusmith.node.facts import NodeFacts
from gpusmith.node.records import parse
from gpusmith.probe.module import UPGRADE_BLOCK
from tests.unit.expect.role_plans import driver_parts, driver_plan
from tests.unit.hosts import make_host

VERSION = "580.178.04"
ROW: dict[str, Any] = {
    "packages": ["nvidia-driver-cuda", "libcuda1", "libnvidia-ml1", "nvidia-modprobe", "nvidia-persistenced"],
    "module": {"dkms": {"open": ["nvidia-kernel-open-dkms"], "proprietary": ["nvidia-kernel-dkms"]}},
    "fabric_manager": "nvidia-fabricmanager",
    "subnet_manager": ["nvlsm"],
    "subnet_manager_tools": ["infiniband-diags"],
    "patterns": ["nvidia-*", "libnvidia-*", "libcuda1"],
    "stands_for_all": "nvidia-driver-cuda",
}
LAYOUTS = {"nvidia": [ROW]}
SETTINGS = {"node": "gpu-1", "version": VERSION, "module_flavour": "auto", "fabric_manager": "auto"}


def bare(gpus: int = 2) -> dict[str, Any]:
    """A machine with H100 GPUs behind NVSwitches, before anything is installed."""
    return {
        "schema": "gpusmith.probe/1",
        "host": {"kernel": "6.1.0-40-amd64"},
        "packages": {"nvidia-container-toolkit": {"version": "1.20.1-1", "held": True}},
        "pci": {
            "gpus": [{"address": f"0000:{n + 1:02x}:00.0", "device_id": "10de:2330"} for n in range(gpus)],
            "nvswitches": [{"address": "0000:05:00.0", "device_id": "10de:22a3"}],
        },
        "module": {
            "installed_version": None,
            "loaded_version": None,
            "flavour": None,
            "nouveau_loaded": False,
        },
        "library": {
            "nvml_version": None,
            "cuda_version": None,
            "simulated": None,
            "files": {name: {"path": None, "fault": None, "shadows": []} for name in ("nvidia-ml", "cuda")},
        },
        "nvml": {"init_code": None, "error": "library not found", "driver_version": None, "gpus": []},
        "dev": {"gpu_minors": [], "control": False, "uvm": False, "uvm_tools": False, "char_links": []},
        "services": {},
        "containerd": {"version": None, "digest": None},
        "kubernetes": {"joined": False, "node_name": None},
        "managed_files": {},
    }


def ready(gpus: int = 2) -> dict[str, Any]:
    """The same machine with the driver as wanted."""
    record = copy.deepcopy(bare(gpus))
    names = [
        *ROW["packages"],
        "nvidia-kernel-open-dkms",
        "nvidia-fabricmanager",
        "libnvidia-ptxjitcompiler1",
    ]
    record["packages"].update({name: {"version": f"{VERSION}-1", "held": True} for name in names})
    record["module"].update(installed_version=VERSION, loaded_version=VERSION, flavour="open")
    record["module"]["firmware"] = ["gsp_ga10x.bin"]
    record["library"].update(
        nvml_version=VERSION,
        cuda_version=VERSION,
        simulated=False,
        nvidia_smi="/usr/bin/nvidia-smi",
        files={
            name: {"path": f"/usr/lib/lib{name}.so.{VERSION}", "fault": None, "shadows": []}
            for name in ("nvidia-ml", "cuda")
        },
    )
    record["nvml"] = {
        "init_code": 0,
        "error": None,
        "driver_version": VERSION,
        "gpus": [
            {
                "index": n,
                "pci": f"0000:{n + 1:02x}:00.0",
                "error": None,
                "fabric_state": "completed",
                "fabric_status": "success",
            }
            for n in range(gpus)
        ],
    }
    record["dev"].update(gpu_minors=list(range(gpus)), control=True, uvm=True, uvm_tools=True)
    running = {"active": "active", "enabled": "enabled", "started_unix": 1.0}
    record["services"] = {"nvidia-persistenced": dict(running), "nvidia-fabricmanager": dict(running)}
    return record


def plan(record: dict[str, Any], **settings: str) -> dict[str, Any]:
    found: dict[str, Any] = driver_plan(record, {**SETTINGS, **settings}, LAYOUTS)
    return found


def may_pass(record: dict[str, Any]) -> bool:
    parsed = parse(record)
    return driver.may_pass(
        driver.problems(parsed, driver_needs.asked_for(parsed, *driver_parts(SETTINGS, LAYOUTS)))
    )


def test_a_node_as_wanted_has_no_differences() -> None:
    found = plan(ready())
    assert found["problems"] == []
    assert found["cures"] == []
    assert found["unheld"] == []


def test_a_bare_node_needs_packages_and_is_told_what() -> None:
    found = plan(bare())
    assert "packages" in found["cures"]
    assert found["flavour"] == "open"
    assert found["fabric_manager"]
    assert "package 'nvidia-fabricmanager' is not installed" in found["problems"]
    assert found["installed"] == []


def test_a_library_of_another_version_is_drift_although_it_came_as_a_dependency() -> None:
    record = ready()
    record["packages"]["libnvidia-ptxjitcompiler1"]["version"] = "580.95.05-1"
    found = plan(record)
    assert found["drift"] == ["'libnvidia-ptxjitcompiler1' is 580.95.05-1"]
    assert found["installed"] == ["580.178.04", "580.95.05"]


def test_the_container_toolkit_is_no_part_of_the_driver() -> None:
    assert plan(ready())["drift"] == []


def test_another_loaded_module_asks_for_a_reboot_and_waiting_does_not_help() -> None:
    record = ready()
    record["module"]["loaded_version"] = "580.95.05"
    found = plan(record)
    assert found["cures"] == ["reboot"]
    assert not may_pass(record)


def test_a_module_that_is_not_loaded_is_loaded() -> None:
    record = ready()
    record["module"]["loaded_version"] = None
    record["nvml"] = {"init_code": 9, "error": "Driver Not Loaded", "gpus": []}
    found = plan(record)
    assert found["cures"] == ["load", "wait"]
    assert may_pass(record)


def test_a_module_that_a_given_up_upgrade_keeps_out_is_not_tried_but_rebooted() -> None:
    record = ready()
    record["module"].update(loaded_version=None, blocked_by=UPGRADE_BLOCK)
    found = plan(record)
    assert "reboot" in found["cures"]
    assert "load" not in found["cures"]
    parsed = parse(record)
    asked = driver_needs.asked_for(parsed, *driver_parts(SETTINGS, LAYOUTS))
    (problem,) = driver.loaded_module(parsed, asked, {})
    assert UPGRADE_BLOCK in problem.cause
    assert "modprobe" not in problem.next_step
    assert problem.next_step.startswith("Reboot")


@pytest.mark.parametrize("state", ["not_started", "in_progress"])
def test_an_incomplete_fabric_is_waited_for(state: str) -> None:
    record = ready()
    record["nvml"]["gpus"][1]["fabric_state"] = state
    found = plan(record)
    assert found["cures"] == ["wait"]
    assert state in found["problems"][0]


def test_a_lost_gpu_needs_a_person_who_is_told_which() -> None:
    record = ready()
    record["nvml"]["gpus"][1]["error"] = "GPU is lost"
    found = plan(record)
    assert found["problems"] == ["GPU 1 (0000:02:00.0) does not answer: GPU is lost"]
    assert not may_pass(record)


def test_counts_must_agree() -> None:
    record = ready()
    record["dev"]["gpu_minors"] = [0]
    assert plan(record)["problems"] == ["PCI has 2 GPUs, NVML 2, /dev 1"]


def test_loose_packages_are_held() -> None:
    record = ready()
    record["packages"]["libnvidia-ptxjitcompiler1"]["held"] = False
    found = plan(record)
    assert found["cures"] == ["hold"]
    assert found["unheld"] == ["libnvidia-ptxjitcompiler1"]


def test_parts_with_versions_of_their_own_are_held_too() -> None:
    record = ready()
    record["packages"]["nvidia-persistenced"] = {"version": "550.163.01-1", "held": False}
    row = {**ROW, "packages": ["libnvidia-ml1"], "others": ["nvidia-persistenced"]}
    found = driver_plan(record, SETTINGS, {"nvidia": [row]})
    assert found["drift"] == [], "its version is nobody's business"
    assert found["unheld"] == ["nvidia-persistenced"]
    assert found["cures"] == ["hold"]


def flavour_of(devices: list[str], setting: str) -> str:
    record = bare()
    for gpu, device in zip(record["pci"]["gpus"], devices, strict=True):
        gpu["device_id"] = device
    want = wanted.Driver(node="gpu-1", version=VERSION, module_flavour=setting)
    return driver_needs.flavour(parse(record), want)


@pytest.mark.parametrize(
    ("device", "setting", "flavour"),
    [
        ("10de:2330", "auto", "open"),
        ("10de:1db4", "auto", "proprietary"),
        # No rows: by their architecture, and where that is not known as the newest.
        ("10de:1b38", "auto", "proprietary"),
        ("10de:2bb6", "auto", "open"),
        ("10de:ffff", "auto", "open"),
        ("10de:ffff", "proprietary", "proprietary"),
        ("10de:2330", "proprietary", "proprietary"),
    ],
)
def test_the_module_fits_the_gpu(device: str, setting: str, flavour: str) -> None:
    assert flavour_of([device, device], setting) == flavour


@pytest.mark.parametrize(
    ("devices", "setting"),
    [
        (["10de:1db4", "10de:1db4"], "open"),
        (["10de:2901", "10de:2901"], "proprietary"),
        (["10de:1db4", "10de:2901"], "auto"),
    ],
)
def test_a_module_that_cannot_drive_the_gpus_is_refused(devices: list[str], setting: str) -> None:
    with pytest.raises(layouts.Unmet, match="odule"):
        flavour_of(devices, setting)


def test_a_plan_says_why_the_settings_cannot_be_met() -> None:
    record = bare()
    for gpu in record["pci"]["gpus"]:
        gpu["device_id"] = "10de:2901"
    refused = plan(record, module_flavour="proprietary")["refused"]
    assert refused == (
        "Only the open kernel module supports 'NVIDIA B200'. Set 'nvidia_driver_module_flavour: auto'."
    )


@pytest.mark.parametrize(
    ("modes", "says"),
    [
        ({"mig_mode": "enabled", "mig_mode_pending": "disabled"}, "is in MIG mode"),
        (
            {"mig_mode": "disabled", "mig_mode_pending": "enabled"},
            "will be in MIG mode after its next reset",
        ),
        ({"mig_mode": "disabled", "mig_mode_pending": "disabled"}, ""),
        ({}, ""),
    ],
)
def test_a_divided_gpu_is_told_as_soon_as_the_driver_is_loaded(modes: dict[str, str], says: str) -> None:
    record = ready()
    record["nvml"]["gpus"][1].update(modes)
    found = plan(record)
    assert [says in sentence and "'nvidia-smi -i 1 -mig 0'" in sentence for sentence in found["divided"]] == (
        [True] if says else []
    )
    # Waiting for the driver does not help.
    assert found["problems"] == []
    record["gpu_layout"] = {"profile": "3g.40gb", "nvml": "3_SLICE", "starts": [0, 4]}
    assert plan(record)["divided"] == []


@pytest.mark.parametrize(
    ("device", "gpus", "switches", "virtual", "setting", "needed"),
    [
        ("10de:2330", 8, True, False, "auto", True),
        ("10de:2330", 4, True, True, "auto", True),
        # A whole board has switches: none on PCI are lost ones, and CUDA does not start without a fabric.
        ("10de:2330", 8, False, False, "auto", True),
        ("10de:2330", 8, False, None, "auto", True),
        # Its board hides them.
        ("10de:2901", 8, False, False, "auto", True),
        # The board of four GPUs has none.
        ("10de:2330", 4, False, False, "auto", False),
        # A virtual machine that got GPUs of such a board alone.
        ("10de:2330", 8, False, True, "auto", False),
        ("10de:2330", 8, False, False, "disabled", False),
        # There are none.
        ("10de:26b9", 8, False, False, "auto", False),
        # Unknown GPUs beside switches.
        ("10de:ffff", 8, True, False, "auto", True),
        ("10de:26b9", 8, False, False, "enabled", True),
    ],
)
def test_who_needs_the_fabric_manager_is_one_question_for_role_and_suite(
    device: str, gpus: int, switches: bool, virtual: bool | None, setting: str, needed: bool
) -> None:
    record = ready()
    record.setdefault("host", {})["virtual"] = virtual
    record["pci"]["gpus"] = [{"address": f"0000:{n}8:00.0", "device_id": device} for n in range(1, gpus + 1)]
    if not switches:
        record["pci"]["nvswitches"] = []
    record["services"]["nvidia-fabricmanager"]["active"] = "failed"
    assert plan(record, fabric_manager=setting)["fabric_manager"] is needed
    assert ("services" in plan(record, fabric_manager=setting)["cures"]) is needed
    facts = NodeFacts(make_host(nvidia_driver_fabric_manager=setting), parse(record), None, {})
    if needed:
        assert "'nvidia-fabricmanager' is failed" in services.fabric(facts)[0].cause
    else:
        with pytest.raises(NotApplicable):
            services.fabric(facts)


def test_an_image_for_a_board_with_switches_gets_the_fabric_manager() -> None:
    record = ready()
    record["pci"] = {"gpus": [], "nvswitches": []}
    for model, needed in (("h100-sxm", True), ("l40s", False)):
        image = Driver(node="gpu-1", version=VERSION, model=all_models()[model])
        assert fabric.needed(parse(record), image) is needed


def test_an_image_without_gpu_is_not_told_to_load_anything() -> None:
    record = ready()
    record["pci"] = {"gpus": [], "nvswitches": []}
    record["module"]["loaded_version"] = None
    found = plan(record)
    assert "load" not in found["cures"]
    assert found["cures"] == ["person"]


@pytest.mark.parametrize("state", ["disabled", "masked"])
def test_a_unit_that_does_not_start_at_boot_is_a_difference(state: str) -> None:
    record = ready()
    unit = "gpusmith-nvidia-load.service"
    record["services"][unit.removesuffix(".service")] = {
        "active": "active",
        "enabled": state,
        "started_unix": 1.0,
    }
    found = plan(record)
    assert found["cures"] == ["services"]
    assert found["problems"] == [
        f"service 'gpusmith-nvidia-load' is {state}, so that after a reboot nobody loads the driver before the runtime starts"
    ]


def test_a_driver_without_that_kind_of_module_is_refused() -> None:
    refused = plan(bare(), version="620.40.01", module_flavour="proprietary")["refused"]
    assert refused.startswith("Driver 620.40.01 has no proprietary kernel module.")
    assert "branch 619 or older" in refused
    assert plan(bare(), version="620.40.01")["refused"] == ""
