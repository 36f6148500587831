"""Services and the NVSwitch fabric."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpusmith.checks import services
from gpusmith.checks.findings import NotApplicable
from gpusmith.expect import services as expected
from tests.faults.cdi import spec_of
from tests.faults.fabric import SXID
from tests.faults.fault import Record
from tests.unit.checks.judged import Facts, failing


def test_an_error_that_a_switch_survives_fails_nothing(facts: Facts, record: Record) -> None:
    record["sxids"].append({**SXID, "fatal": False})
    assert failing(facts(record)) == {}


def test_no_switches_no_fabric(facts: Facts, record: Record) -> None:
    record["pci"]["nvswitches"] = []
    for gpu in record["pci"]["gpus"]:
        gpu["device_id"] = "10de:26b9"
    with pytest.raises(NotApplicable):
        services.fabric(facts(record, gpusmith_gpu_model="l40s"))


def test_a_node_that_others_set_up_has_no_units_of_ours(
    record: dict[str, Any], facts: Callable[..., Any]
) -> None:
    for name in ("gpusmith-nvidia-load", "gpusmith-gpu-devices"):
        record["services"][name].update(active="inactive", enabled="not-found")
    assert services.services(facts(record)) == []


@pytest.mark.parametrize(
    ("state", "waits"), [("in_progress", True), ("not_supported", False), ("completed", False)]
)
def test_without_switches_a_gpu_must_not_wait_for_a_fabric(
    state: str, waits: bool, facts: Facts, record: Record
) -> None:
    record["pci"]["nvswitches"] = []
    for gpu in record["nvml"]["gpus"]:
        gpu.update(fabric_state=state, fabric_status=None)
    if waits:
        assert "GPU 1" in services.fabric(facts(record))[1].cause
        assert "waits for its NVLink fabric" in services.fabric(facts(record))[1].cause
    else:
        with pytest.raises(NotApplicable):
            services.fabric(facts(record))


def test_a_whole_board_without_any_switch_has_lost_them(facts: Facts, record: Record) -> None:
    gpus = record["pci"]["gpus"]
    record["pci"].update(gpus=[dict(gpus[0], address=f"0000:{n}8:00.0") for n in range(1, 9)], nvswitches=[])
    assert "0 NVSwitches are on the PCI bus" in failing(facts(record))["nodes.fabric"]


def test_part_of_a_board_in_a_virtual_machine_has_part_of_its_switches(facts: Facts, record: Record) -> None:
    record["pci"]["nvswitches"].pop()
    assert "3 NVSwitches" in failing(facts(record))["nodes.fabric"]
    record["host"]["virtual"] = True
    assert "nodes.fabric" not in failing(facts(record))


@pytest.mark.parametrize("state", ["disabled", "masked"])
def test_only_without_our_unit_a_boot_needs_the_toolkits_own(
    state: str, record: dict[str, Any], facts: Callable[..., Any]
) -> None:
    record["services"]["nvidia-cdi-refresh"]["enabled"] = state
    assert services.services(facts(record)) == []
    for name in expected.OURS:
        record["services"][name].update(active="inactive", enabled="not-found")
    (problem,) = services.services(facts(record))
    assert problem.cause == (
        f"Node 'gpu-1': service 'nvidia-cdi-refresh' is {state}, so that after a reboot nobody makes"
        " CDI specification '/var/run/cdi/nvidia.yaml' anew."
    )
    # What a boot keeps needs nobody.
    spec_of(record)["path"] = "/etc/cdi/nvidia.yaml"
    assert services.services(facts(record)) == []
