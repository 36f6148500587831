"""A GPU that does not take a mode: when it is reset, and what a person reads."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from gpusmith.partition import gpu, run
from gpusmith.partition.gpu import Gpu
from gpusmith.partition.problem import PartitionError
from gpusmith.probe import layout, library, nvml, usage
from gpusmith.probe.layout import GpuLayout
from gpusmith.wanted.layouts import instances

HALVES = GpuLayout(profile="3g.40gb", nvml="3_SLICE", starts=(0, 4))
USED = pynvml.NVML_ERROR_IN_USE
RESET = pynvml.NVML_ERROR_RESET_REQUIRED


class Driver:
    """A GPU in a virtual machine, which has to be reset for another mode."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.modes, self.calls = [0, 0], list[str]()
        self.activation: list[int] = [RESET]
        self.helps, self.status = True, 0
        for name, function in {
            "nvmlDeviceGetMigMode": lambda _: list(self.modes),
            "nvmlDeviceSetMigMode": self._set,
            "nvmlDeviceGetHandleByIndex": str,
            "nvmlDeviceGetHandleByPciBusId": str,
            "nvmlDeviceGetPciInfo": lambda _: SimpleNamespace(
                busId="00000000:18:00.0", pciDeviceId=0x233010DE
            ),
            "nvmlDeviceGetMinorNumber": lambda _: 3,
            "nvmlDeviceGetUUID": lambda _: "GPU-1",
            "nvmlErrorString": lambda code: {USED: "In use", RESET: "Reset required"}.get(code, "Unknown"),
            "nvmlInit": lambda: self.calls.append("init"),
            "nvmlShutdown": lambda: self.calls.append("shutdown"),
        }.items():
            monkeypatch.setattr(pynvml, name, function)
        monkeypatch.setattr(gpu, "find_program", lambda name: f"/usr/bin/{name}")
        monkeypatch.setattr(subprocess, "run", self._reset)
        monkeypatch.setattr(time, "sleep", lambda _: self.calls.append("sleep"))
        monkeypatch.setattr(usage, "gather", lambda: usage.Usage(self.holders))
        self.holders: tuple[usage.Holder, ...] = ()

    def _set(self, _handle: object, mode: int) -> int:
        status = self.activation.pop(0)
        if status == RESET:
            self.modes[1] = mode
        if status == 0:
            self.modes = [mode, mode]
        return status

    def _reset(self, command: list[str], **_more: Any) -> Any:
        self.calls.append(" ".join(command))
        if self.status < 0:
            raise subprocess.TimeoutExpired(command, 1)
        if not self.status and self.helps:
            self.modes[0] = self.modes[1]
        return subprocess.CompletedProcess(command, self.status, "GPU 0 is\n in use.\n")


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    return Driver(monkeypatch)


def switched(on: int = 1) -> list[str]:
    done: list[str] = []
    Gpu(0)._set_mode(on, done)
    return done


def refused() -> PartitionError:
    with pytest.raises(PartitionError) as caught:
        switched()
    return caught.value


def test_a_gpu_that_asks_for_a_reset_gets_it_while_nobody_has_it_open(driver: Driver) -> None:
    label = "GPU 0 (GPU-1, 0000:18:00.0)"
    assert switched() == [f"{label} is reset", f"MIG mode of {label} is switched on"]
    assert driver.calls == ["shutdown", "/usr/bin/nvidia-smi --gpu-reset -i 0000:18:00.0", "init"]


@pytest.mark.parametrize(
    ("status", "says"), [(255, "It says: GPU 0 is in use."), (-1, "It says: nothing within 120 s")]
)
def test_a_reset_that_fails_asks_for_a_reboot(driver: Driver, status: int, says: str) -> None:
    driver.status = status
    error = refused()
    assert error.message.endswith(f"'nvidia-smi --gpu-reset -i 0000:18:00.0' failed. {says}")
    assert error.hint == gpu.REBOOT
    assert driver.calls[-1] == "init"


def test_a_reset_that_brings_nothing_asks_for_a_reboot(driver: Driver) -> None:
    driver.helps = False
    assert "a reset did not bring it" in refused().message


def test_without_nvidia_smi_a_reboot_is_asked_for(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "find_program", lambda _: None)
    assert "there is no 'nvidia-smi'" in refused().message
    assert driver.calls == []


def test_who_goes_soon_is_waited_for(driver: Driver) -> None:
    driver.activation = [USED, USED, 0]
    assert len(switched()) == 1
    assert driver.calls == ["sleep", "sleep"]


def test_who_stays_is_named_but_for_the_persistence_daemon(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "PATIENCE_S", -1)
    driver.activation = [USED] * 2
    driver.holders = (
        usage.Holder(1, "root", "/usr/bin/nvidia-persistenced --verbose", ("/dev/nvidia3",)),
        usage.Holder(2, "root", "dcgm", ("/dev/nvidia3",), unit="nvidia-dcgm.service"),
        usage.Holder(2, "root", "other", ("/dev/nvidia4",)),
        usage.Holder(os.getpid(), "root", "this program", ("/dev/nvidia3",)),
        usage.Holder(2**22 + 1, "root", "its child, which has ended", ("/dev/nvidia3",)),
    )
    monkeypatch.setattr(
        os.path, "exists", lambda path: path in ("/proc/1", "/proc/2", f"/proc/{os.getpid()}")
    )
    error = refused()
    assert (
        error.message == "MIG mode of GPU 0 (GPU-1, 0000:18:00.0) cannot be switched on; NVML says: In use."
    )
    assert error.hint == (
        "It is held by process 2 'dcgm' (user 'root', unit 'nvidia-dcgm.service') with /dev/nvidia3."
        " End this, and run again."
    )
    driver.holders = ()
    assert refused().hint.startswith("No process is seen")


@pytest.mark.parametrize(("wanted", "fails"), [(GpuLayout(), False), (HALVES, True)])
def test_without_a_driver_gpus_are_whole(
    monkeypatch: pytest.MonkeyPatch, wanted: GpuLayout, fails: bool
) -> None:
    def init() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_DRIVER_NOT_LOADED)

    for found in ([], ["/lib.so"]):
        monkeypatch.setattr(library, "find", lambda *_, found=found: {"nvidia-ml": found})
        monkeypatch.setattr(library, "ask", lambda: None)
        monkeypatch.setattr(nvml, "load", lambda _: True)
        monkeypatch.setattr(nvml, "words", str)
        monkeypatch.setattr(pynvml, "nvmlInit", init)
        if fails:
            with pytest.raises(PartitionError) as caught:
                run.settle(wanted, False, [])
            assert caught.value.hint == run.NO_DRIVER
        else:
            assert run.settle(wanted, False, []) is None


def test_what_went_wrong_is_json_with_a_next_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(run, "MARKS", tmp_path)
    monkeypatch.setattr(run, "MPS", tmp_path / "mps")

    def settle(_wanted: object, _check: bool, done: list[str], _by_mps: bool) -> None:
        done.append("a")
        raise PartitionError("It is so.", "Do this.", in_use=True)

    monkeypatch.setattr(run, "settle", settle)
    monkeypatch.setattr(layout, "read", lambda _: None)
    assert run.main([]) == 1
    assert (
        capsys.readouterr().out
        == '{"changed": true, "done": ["a"], "error": "It is so.", "hint": "Do this.", "in_use": true}\n'
    )


@pytest.mark.parametrize(
    ("words", "marks"), [([], [instances("1g.10gb+me", 1).label]), (["--check"], ["old"])]
)
def test_the_device_plugin_is_told_when_gpus_are_divided(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str], marks: list[str]
) -> None:
    (tmp_path / "old").touch()
    monkeypatch.setattr(run, "MARKS", tmp_path)
    monkeypatch.setattr(run, "settle", lambda *_: True)
    made = layout.GpuLayout(profile="1g.10gb+me", nvml="1_SLICE_REV1", starts=(0,))
    monkeypatch.setattr(layout, "read", lambda _: made)
    assert run.main(words) == 0
    assert [path.name for path in tmp_path.iterdir()] == marks
    monkeypatch.setattr(layout, "read", lambda _: None)
    assert run.main([]) == 0
    assert list(tmp_path.iterdir()) == []
