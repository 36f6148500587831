"""Parts of the driver that a board needs by itself: which, on which machines, and what a node that serves keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpusmith.expect import components, layouts
from gpusmith.expect.wanted import Driver
from gpusmith.node.records import parse
from tests.unit.expect.role_plans import driver_plan
from tests.unit.expect.test_driver import ROW, SETTINGS, VERSION, bare, ready

PARTS = {"nscq": "libnvidia-nscq", "nvsdm": "libnvsdm"}
WITH_PARTS = {"nvidia": [{**ROW, "components": PARTS}]}
WITH_BRANCH = {
    "nvidia": [{**ROW, "components": {name: f"{package}-{{branch}}" for name, package in PARTS.items()}}]
}
MANAGER = {"address": "0000:81:00.0", "device_id": "15b3:1021"}


def brought(
    raw: dict[str, Any],
    asked: tuple[str, ...] = ("auto",),
    known: layouts.Layouts = WITH_PARTS,
    **more: Any,
) -> list[str]:
    """Packages of parts that a role installs."""
    plan = driver_plan(raw, {**SETTINGS, "components": list(asked), **more}, known)
    assert plan["refused"] == ""
    without = driver_plan(raw, {**SETTINGS, "components": [], **more}, known)["packages"]
    return [name for name in plan["packages"] if name not in without]


def switches(raw: dict[str, Any]) -> None:
    """H100 behind NVSwitches, as the record is."""


def nvlink_5(raw: dict[str, Any]) -> None:
    gpus = [{"address": f"0000:{n}8:00.0", "device_id": "10de:2901"} for n in (1, 2)]
    raw["pci"] = {"gpus": gpus, "nvswitches": [], "switch_managers": [MANAGER]}
    raw["host"]["architecture"] = "x86_64"


def on_arm(raw: dict[str, Any]) -> None:
    nvlink_5(raw)
    raw["host"]["architecture"] = "aarch64"


def none(raw: dict[str, Any]) -> None:
    raw["pci"].update(gpus=[{"address": "0000:18:00.0", "device_id": "10de:26b9"}], nvswitches=[])


def four_of_hopper(raw: dict[str, Any]) -> None:
    raw["pci"]["nvswitches"] = []


@pytest.mark.parametrize(
    ("board", "names"),
    [
        (switches, ["libnvidia-nscq"]),
        (nvlink_5, ["libnvsdm"]),
        (on_arm, []),
        (none, []),
        (four_of_hopper, []),
    ],
)
def test_the_board_decides(board: Callable[[dict[str, Any]], None], names: list[str]) -> None:
    raw = bare()
    board(raw)
    assert brought(raw) == names


def test_who_wants_no_fabric_manager_wants_no_library_for_it() -> None:
    assert brought(bare(), fabric_manager="disabled") == []


def test_a_layout_without_such_packages_is_no_reason_to_refuse() -> None:
    assert brought(bare(), known={"nvidia": [ROW]}) == []


def test_what_is_named_comes_anyway_and_once() -> None:
    assert brought(bare(), ("nscq", "auto")) == ["libnvidia-nscq"]
    assert brought(bare(), ("nvsdm", "auto")) == ["libnvsdm", "libnvidia-nscq"]
    assert brought(bare(), ("nvsdm",)) == ["libnvsdm"]
    assert brought(bare(), ()) == []


def serving(**packages: str) -> dict[str, Any]:
    raw = ready()
    raw["kubernetes"]["joined"] = True
    raw["packages"] |= {
        name.replace("_", "-"): {"version": version, "held": True} for name, version in packages.items()
    }
    return raw


def told(
    raw: dict[str, Any], asked: tuple[str, ...] = ("auto",), known: layouts.Layouts = WITH_PARTS
) -> list[str]:
    layout = layouts.layout(known["nvidia"], VERSION)
    return components.unseen(
        parse(raw), Driver(node="gpu-1", version=VERSION, components=asked, layout=layout)
    )


def test_a_node_that_serves_without_it_keeps_what_it_has_and_is_told() -> None:
    assert brought(serving()) == []
    (note,) = told(serving())
    assert "without 'libnvidia-nscq'" in note
    assert "'nvidia_driver_components' names 'nscq'" in note
    assert brought(serving(), ("nscq",)) == ["libnvidia-nscq"]
    assert told(serving(), ("nscq",)) == told(serving(), ()) == []
    assert told(serving(), known={"nvidia": [ROW]}) == []
    # One that has not joined gets it.
    assert told(ready()) == []
    assert brought(ready()) == ["libnvidia-nscq"]


@pytest.mark.parametrize("known", [WITH_PARTS, WITH_BRANCH])
@pytest.mark.parametrize(
    ("name", "version"), [("libnvidia_nscq", VERSION), ("libnvidia_nscq_575", "575.57.08")]
)
def test_a_node_that_serves_with_it_has_it_in_each_driver(
    name: str, version: str, known: layouts.Layouts
) -> None:
    raw = serving(**{name: f"{version}-1"})
    assert brought(raw, known=known) == [layouts.layout(known["nvidia"], VERSION).components["nscq"]]
    assert told(raw, known=known) == []


def test_a_node_that_has_lost_its_driver_is_set_up_as_a_new_one() -> None:
    raw = bare()
    raw["kubernetes"]["joined"] = True
    assert brought(raw) == ["libnvidia-nscq"]
