"""Loading and unloading the driver's modules (what needs no mounts; the rest is tried on lab machines)."""

from __future__ import annotations

import errno
import fcntl
import time
from pathlib import Path
from typing import Any, cast

import pytest
from gpulab import delays
from gpulab.delays import Delays
from simgpu import driver, hardware, modules, paths
from simgpu.errors import RefusedError
from simgpu.hardware import Machine
from simgpu.state import State

from tests.integration.simgpu.conftest import ModuleFile


@pytest.mark.usefixtures("machine", "firmware")
def test_load_shows_itself_and_unload_takes_it_away(module_file: ModuleFile) -> None:
    driver.load(module_file("open/nvidia.o"), {"NVreg_X": "1"})
    assert (paths.MODULES / "nvidia" / "version").read_text() == "580.178.04\n"
    assert "Open" in (paths.PROC / "nvidia" / "version").read_text()
    assert len(list((paths.PROC / "nvidia" / "gpus").iterdir())) == 4
    driver.load(module_file("open/nvidia-uvm.o"), {})
    assert (paths.MODULES / "nvidia" / "refcnt").read_text() == "1\n"
    with pytest.raises(RefusedError, match="in use by: nvidia_uvm"):
        driver.unload("nvidia")
    driver.unload("nvidia_uvm")
    driver.unload("nvidia")
    assert not (paths.MODULES / "nvidia").exists()
    assert not (paths.PROC / "nvidia").exists()
    assert State.load().gpus == []


@pytest.mark.usefixtures("machine", "firmware")
def test_unload_is_refused_while_a_client_lives(module_file: ModuleFile) -> None:
    driver.load(module_file("open/nvidia.o"), {})
    with paths.LIVE.open("rb") as client:
        fcntl.fcntl(client, modules.F_OFD_SETLK, modules.flock_struct(fcntl.F_RDLCK, 0))
        with pytest.raises(RefusedError, match="nvidia is in use") as refusal:
            driver.unload("nvidia")
    assert refusal.value.code == errno.EAGAIN
    driver.unload("nvidia")


@pytest.mark.usefixtures("machine", "firmware")
def test_modules_that_do_not_fit_are_refused(module_file: ModuleFile) -> None:
    with pytest.raises(RefusedError) as refusal:
        driver.load(module_file("open/nvidia-uvm.o"), {})
    assert refusal.value.code == errno.ENOENT, "unknown symbols"
    with pytest.raises(RefusedError) as refusal:
        driver.load(module_file("open/nvidia.o", "5.4.0"), {})
    assert refusal.value.code == errno.ENOEXEC, "another kernel"
    driver.load(module_file("open/nvidia.o"), {})
    with pytest.raises(RefusedError) as refusal:
        driver.load(module_file("open/nvidia.o"), {})
    assert refusal.value.code == errno.EEXIST


@pytest.mark.usefixtures("machine", "firmware")
def test_a_broken_module_is_refused_with_a_line_in_the_kernel_log(
    broken_file: ModuleFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[str] = []
    monkeypatch.setattr(driver, "klog", lambda text, *_: log.append(text))
    with pytest.raises(RefusedError, match="Unknown symbol in module") as refusal:
        driver.load(broken_file("module"), {})
    assert refusal.value.code == errno.ENOENT
    assert "nvidia: Unknown symbol" in log[0]
    assert State.load().modules == []


def test_a_version_that_gives_gpus_other_uuids(
    machine: Machine, firmware: None, broken_file: ModuleFile, module_file: ModuleFile
) -> None:
    real = sorted(gpu["uuid"] for gpu in machine["gpus"])
    seen = []
    for _ in range(2):
        driver.load(broken_file("uuids"), {})
        seen.append(sorted(row["uuid"] for row in State.load().gpus))
        driver.unload("nvidia")
    assert seen[0] == seen[1], "as long as that version runs they are the same"
    assert not set(seen[0]) & set(real)
    assert len(set(seen[0])) == 4
    driver.load(module_file("open/nvidia.o"), {})
    assert sorted(row["uuid"] for row in State.load().gpus) == real


@pytest.mark.parametrize(
    ("change", "version", "flavour"),
    [
        ({"open_module": "required"}, "580.178.04", "proprietary"),
        ({"open_module": "unsupported"}, "580.178.04", "open"),
        ({"min_driver_branch": 570}, "550.163.01", "open"),
        ({"gpus": []}, "580.178.04", "open"),
    ],
)
def test_hardware_that_a_driver_does_not_drive(
    machine: Machine, change: dict[str, Any], version: str, flavour: str
) -> None:
    driver.refuse_hardware(machine, "580.178.04", "open")
    with pytest.raises(RefusedError) as refusal:
        driver.refuse_hardware(cast(Machine, {**machine, **change}), version, flavour)
    assert refusal.value.code == errno.ENODEV


@pytest.mark.usefixtures("machine", "firmware")
def test_delays_are_waited_for(
    module_file: ModuleFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    delays.write(tmp_path, Delays(boot=3, module_load=20, fabric=45))
    driver.load(module_file("open/nvidia.o"), {})
    assert slept == [20]
    driver.fabric("in-progress")
    assert State.load().values["fabric_delay_ms"] == "45000"
    # Loading takes the fabric down; its manager asks again when it begins.
    delays.write(tmp_path, Delays(fabric=0.5))
    driver.fabric("in-progress")
    assert State.load().values["fabric_delay_ms"] == "500"
    assert hardware.delay_s("boot") == 0


@pytest.mark.usefixtures("kernel")
def test_a_machine_without_delays_is_fast() -> None:
    assert [hardware.delay_s(name) for name in ("boot", "module_load", "fabric")] == [0, 0, 0]
