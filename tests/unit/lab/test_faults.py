"""The lab's side of faults: what is refused before a machine is asked, and what comes back from it."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Any

import pytest
from gpulab import faults
from gpulab.simgpu import source_dir

from gpusmith.errors import InputError, ToolError


class Machine:
    def __init__(self, code: int = 0, stderr: str = "") -> None:
        self.asked: list[Sequence[str]] = []
        self.answer = subprocess.CompletedProcess[str]([], code, "", stderr)

    def __call__(self, machine: str, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        self.asked.append([machine, *words])
        return self.answer


def test_words_for_the_simulated_kernel() -> None:
    machine = Machine()
    faults.inject(machine, "gpu-1", "xid", gpu=2, xid=79)
    faults.heal(machine, "gpu-1")
    assert machine.asked == [
        ["gpu-1", faults.SIMGPU, "fault", "xid", "79", "--gpu", "2"],
        ["gpu-1", faults.SIMGPU, "heal"],
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "gpu-on-fire"}, "gpu-on-fire"),
        ({"kind": "xid"}, "Xid"),
        ({"kind": "throttle", "xid": 3}, "Xid"),
        ({"kind": "driver-not-loaded", "gpu": 1}, "whole machine"),
    ],
)
def test_nonsense_is_refused_before_the_machine_is_asked(arguments: dict[str, Any], message: str) -> None:
    machine = Machine()
    with pytest.raises(InputError, match=message):
        faults.inject(machine, "gpu-1", **arguments)
    assert machine.asked == []


def test_a_refusal_of_the_simulated_kernel_is_the_users_error() -> None:
    with pytest.raises(InputError, match="no GPU 9"):
        faults.inject(
            Machine(22, "simgpu: there is no GPU 9: this machine has 4\n"), "gpu-1", "throttle", gpu=9
        )


def test_an_unreachable_machine_is_the_labs_error() -> None:
    with pytest.raises(ToolError, match="no such container"):
        faults.heal(Machine(125, "Error: no such container"), "gpu-1")


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize(
    ("healed", "returns"), [("gpu-missing", True), ("xid", False), ("of-another-lab", False)]
)
def test_a_unit_that_is_enabled_follows_devices_that_come_back(
    enabled: bool, healed: str, returns: bool
) -> None:
    asked: list[str] = []

    def machine(_: str, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        asked.append(words[1])
        return subprocess.CompletedProcess(words, 0 if enabled or words[1] == "restart" else 1, "", "")

    faults.follow_devices(machine, "gpu-1", [healed])
    assert ("restart" in asked) is (enabled and returns)


def test_the_program_is_part_of_the_image() -> None:
    assert (source_dir() / "rootfs" / faults.SIMGPU.lstrip("/")).exists()


@pytest.mark.parametrize("code", [-1, 0, 1000, 99999])
def test_an_xid_that_no_driver_reports_is_refused(code: int) -> None:
    machine = Machine()
    with pytest.raises(InputError, match=f"'{code}' is no Xid"):
        faults.inject(machine, "gpu-1", "xid", xid=code)
    assert not machine.asked
