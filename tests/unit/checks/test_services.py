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
