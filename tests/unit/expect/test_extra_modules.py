"""Modules that use the driver's: declared, loaded, and loaded by boots."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.inventory import rules
from tests.unit.expect.role_plans import driver_plan
from tests.unit.expect.test_driver import LAYOUTS, SETTINGS, ready

FILE = "/etc/modules-load.d/gpusmith-nvidia-driver.conf"


def found(loaded: bool, boots: dict[str, Any] | None, name: str = "gdrdrv") -> list[str]:
    raw = ready()
    raw["system"] = {"modules": {name: loaded}}
    if boots is not None:
        raw["boot"] = {"modules": {name: boots}, "sysctl": {}, "swap_units": []}
    problems: list[str] = driver_plan(raw, {**SETTINGS, "extra_modules": [name]}, LAYOUTS)["problems"]
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
    assert driver_plan(ready(), SETTINGS, LAYOUTS)["problems"] == []


@pytest.mark.parametrize(
    ("given", "good"), [(["nvidia_fs", "gdrdrv"], True), (["nvidia-peermem"], False), ([1], False)]
)
def test_only_known_modules_are_declared(given: Any, good: bool) -> None:
    rule = rules.RULES["nvidia_driver_extra_modules"]
    assert (list(rule("nvidia_driver_extra_modules", given)) == []) is good


@pytest.mark.parametrize(("given", "good"), [(["auto", "nscq", "nvsdm"], True), (["libnvidia-nscq"], False)])
def test_only_known_components_are_declared(given: Any, good: bool) -> None:
    rule = rules.RULES["nvidia_driver_components"]
    found = [str(refusal) for refusal in rule("nvidia_driver_components", given)]
    assert (found == []) is good
    assert all("one of auto, nscq, nvsdm" in refusal for refusal in found)


RUNNING, NEXT, BARE = "6.1.0-40-amd64", "6.1.0-41-amd64", "6.1.0-42-amd64"


def to_rebuild(
    joined: bool = False, loaded: bool = False, version: str = "", declared: str = "gdrdrv", **current: bool
) -> dict[str, list[str]]:
    """Kernels of which the last one has no headers; the running one has GDRCopy's module as `current` says."""
    raw = ready()
    raw["host"]["kernel"] = RUNNING
    raw["kubernetes"]["joined"] = joined
    raw["system"] = {"modules": {"gdrdrv": loaded}}
    row = {"image": "/boot/x", "module": "m", "module_version": raw["module"]["installed_version"]}
    raw["kernels"] = [
        {**row, "release": RUNNING, "headers": True, "dependents": current},
        {**row, "release": NEXT, "headers": True, "dependents": {"gdrdrv": False}},
        {**row, "release": BARE, "headers": False, "dependents": {"gdrdrv": False}},
    ]
    if version:
        raw["module"]["installed_version"] = version
    plan = driver_plan(raw, {**SETTINGS, "extra_modules": [declared]}, LAYOUTS)
    found: dict[str, list[str]] = plan["to_rebuild"]
    return found


def test_what_was_built_for_another_driver_is_built_anew() -> None:
    assert to_rebuild(gdrdrv=True) == {NEXT: ["gdrdrv"]}
    assert to_rebuild(gdrdrv=False) == {RUNNING: ["gdrdrv"], NEXT: ["gdrdrv"]}
    # DKMS does not know it for the running kernel: another package brings it.
    assert to_rebuild() == {NEXT: ["gdrdrv"]}


def test_a_change_of_the_driver_is_foretold_with_what_is_built_anew() -> None:
    assert to_rebuild(gdrdrv=True, version="570.1.1") == {RUNNING: ["gdrdrv"], NEXT: ["gdrdrv"]}


def test_modules_that_serve_stay_as_they_are_until_their_driver_changes() -> None:
    assert to_rebuild(joined=True, loaded=True, gdrdrv=False) == {}
    assert to_rebuild(joined=True, loaded=False, gdrdrv=False) == {RUNNING: ["gdrdrv"], NEXT: ["gdrdrv"]}
    assert to_rebuild(joined=False, loaded=True, gdrdrv=False) == {RUNNING: ["gdrdrv"], NEXT: ["gdrdrv"]}


def test_modules_that_nobody_declares_are_their_owners() -> None:
    assert to_rebuild(gdrdrv=False, declared="nvidia_peermem") == {}


def test_who_misses_a_module_is_told_that_it_is_of_another_driver() -> None:
    raw = ready()
    raw["system"] = {"modules": {"gdrdrv": False}}
    raw["kernels"] = [{"release": raw["host"]["kernel"], "module": "m", "dependents": {"gdrdrv": False}}]
    (problem,) = driver_plan(raw, {**SETTINGS, "extra_modules": ["gdrdrv"]}, LAYOUTS)["problems"]
    assert "was not built for this driver" in problem
