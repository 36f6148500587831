"""Parameters of the driver's module: what the inventory says, what the module shows, and who has to do something."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.expect import parameters
from gpusmith.inventory import rules
from gpusmith.node.records import parse
from gpusmith.probe.module import parse_parameters
from gpusmith.probe.record import Record
from tests.unit.expect.role_plans import driver_plan
from tests.unit.expect.test_driver import LAYOUTS, SETTINGS, ready

PARAMS = """ResmanDebugLevel: 4294967295
ModifyDeviceFiles: 1
DeviceFileMode: 438
RmProfilingAdminOnly: 0
RegistryDwords: "RMConnectToFabric=1;"
"""


def record(loaded: bool = True, joined: bool = False) -> Record:
    raw = ready()
    raw["module"]["parameters"] = parse_parameters(PARAMS)
    raw["kubernetes"]["joined"] = joined
    if not loaded:
        raw["module"]["loaded_version"] = None
    return parse(raw)


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("NVreg_DeviceFileMode", "0666", ()),
        ("NVreg_DeviceFileMode", "0x1b6", ()),
        ("NVreg_DeviceFileMode", "0660", "438"),
        ("NVreg_ResmanDebugLevel", "-1", ()),
        ("NVreg_RestrictProfilingToAdminUsers", "0", ()),
        ("NVreg_RestrictProfilingToAdminUsers", "1", "0"),
        ("NVreg_RegistryDwords", "RMConnectToFabric=1;", ()),
        ("NVreg_EnableStreamMemOps", "1", None),
    ],
)
def test_values_are_compared_as_the_kernel_reads_them(name: str, value: str, shown: Any) -> None:
    assert parameters.differing(record(), {name: value}) == ({} if shown == () else {name: shown})


def test_a_module_that_is_not_loaded_cannot_be_asked() -> None:
    assert parameters.differing(record(loaded=False), {"NVreg_X": "1"}) == {}


@pytest.mark.parametrize("joined", [False, True])
def test_the_role_asks_for_a_reboot(joined: bool) -> None:
    raw = ready()
    raw["module"]["parameters"] = {"EnableStreamMemOPs": "0"}
    raw["kubernetes"]["joined"] = joined
    settings = {**SETTINGS, "parameters": {"NVreg_EnableStreamMemOPs": 1}}
    plan = driver_plan(raw, settings, LAYOUTS)
    assert plan["cures"] == ["reboot"]
    assert "NVreg_EnableStreamMemOPs" in plan["problems"][0]


@pytest.mark.parametrize(
    ("given", "good"),
    [
        ({"NVreg_EnableStreamMemOPs": 1, "NVreg_RegistryDwords": "A=0x1;B=2"}, True),
        ({"EnableStreamMemOPs": 1}, False),
        ({"NVreg_A": True}, False),
        ({"NVreg_A": "1 options nouveau"}, False),
        ({"NVreg_A": "1\ninstall nvidia /bin/true"}, False),
        (["NVreg_A=1"], False),
    ],
)
def test_only_words_become_words_of_modprobes_file(given: Any, good: bool) -> None:
    rule = rules.RULES["nvidia_driver_module_parameters"]
    assert (list(rule("nvidia_driver_module_parameters", given)) == []) is good
