"""Modules that use the driver's: declared, loaded, and loaded by boots."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.expect import plans
from gpusmith.inventory import rules
from tests.unit.expect.test_driver import LAYOUTS, SETTINGS, ready

FILE = "/etc/modules-load.d/gpusmith-nvidia-driver.conf"


def found(loaded: bool, boots: dict[str, Any] | None, name: str = "gdrdrv") -> list[str]:
    raw = ready()
    raw["system"] = {"modules": {name: loaded}}
    if boots is not None:
        raw["boot"] = {"modules": {name: boots}, "sysctl": {}, "swap_units": []}
    problems: list[str] = plans.driver(raw, {**SETTINGS, "extra_modules": [name]}, LAYOUTS)["problems"]
    return problems


@pytest.mark.parametrize(
    ("loaded", "boots", "says"),
    [
        (True, {"file": FILE, "forbidden_by": None}, ""),
        (True, None, ""),
        (False, {"file": FILE, "forbidden_by": None}, "is not loaded"),
        (True, {"file": None, "forbidden_by": None}, "boots do not load it"),
        (
            True,
            {"file": FILE, "forbidden_by": "/etc/modprobe.d/x.conf"},
            "'/etc/modprobe.d/x.conf' keeps boots",
        ),
    ],
)
def test_a_declared_module_is_loaded_now_and_by_boots(
    loaded: bool, boots: dict[str, Any] | None, says: str
) -> None:
    problems = found(loaded, boots)
    assert len(problems) == bool(says)
    assert all(says in problem for problem in problems)


def test_nothing_is_asked_of_modules_that_nobody_declares() -> None:
    assert plans.driver(ready(), SETTINGS, LAYOUTS)["problems"] == []


@pytest.mark.parametrize(
    ("given", "good"), [(["nvidia_fs", "gdrdrv"], True), (["nvidia-peermem"], False), ([1], False)]
)
def test_only_known_modules_are_declared(given: Any, good: bool) -> None:
    rule = rules.RULES["nvidia_driver_extra_modules"]
    assert (list(rule("nvidia_driver_extra_modules", given)) == []) is good
