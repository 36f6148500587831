"""The simulated kernel: state, modules, faults (what needs no mounts; the rest is tried on lab machines)."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from gpulab import delays
from gpulab.delays import Delays
from gpulab.simgpu import packages


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> packages.Driver:
    return packages.Driver(tmp_path_factory.mktemp("driver"), "580.178.04", 13000)


def module_file(kernel: Any, built: packages.Driver, tmp_path: Path, part: str, release: str = "") -> Path:
    """A module as dkms leaves it: made for one kernel release."""
    data = built.part(part).read_bytes()
    start = data.index(b"vermagic=@")
    end = data.index(b"\0", start)
    magic = f"vermagic={release or kernel.os.uname().release} SMP".encode()
    path = tmp_path / "module.ko"
    path.write_bytes(data[:start] + magic.ljust(end - start, b"\0") + data[end:])
    return path


@pytest.fixture
def firmware(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that the firmware package is there, and that no udev rule is."""
    monkeypatch.setattr(kernel.Path, "glob", lambda *_: iter([Path("gsp_ga10x.bin")]))
    monkeypatch.setattr(kernel, "device_nodes", lambda name: None)


def test_state_survives_a_round_trip(kernel: Any, machine: dict[str, Any]) -> None:
    state = kernel.State.load()
    state.gpus = kernel.probe_gpus(machine)
    state.xid(state.gpus[0], 63)
    state.save()
    again = kernel.State.load()
    assert (again.values, again.gpus, again.xids) == (state.values, state.gpus, state.xids)


def test_saving_keeps_the_inode(kernel: Any, machine: dict[str, Any]) -> None:
    before = kernel.LIVE.stat().st_ino
    kernel.State.load().save()
    assert kernel.LIVE.stat().st_ino == before
    assert kernel.LIVE.stat().st_size == kernel.LIVE_SIZE


@pytest.mark.usefixtures("machine", "firmware")
def test_load_shows_itself_and_unload_takes_it_away(
    kernel: Any, built: packages.Driver, tmp_path: Path
) -> None:
    kernel.load(module_file(kernel, built, tmp_path, "open/nvidia.o"), {"NVreg_X": "1"})
    assert (kernel.MODULES / "nvidia" / "version").read_text() == "580.178.04\n"
    assert "Open" in (kernel.PROC / "nvidia" / "version").read_text()
    assert len(list((kernel.PROC / "nvidia" / "gpus").iterdir())) == 4
    kernel.load(module_file(kernel, built, tmp_path, "open/nvidia-uvm.o"), {})
    assert (kernel.MODULES / "nvidia" / "refcnt").read_text() == "1\n"
    with pytest.raises(kernel.Refused, match="in use by: nvidia_uvm"):
        kernel.unload("nvidia")
    kernel.unload("nvidia_uvm")
    kernel.unload("nvidia")
    assert not (kernel.MODULES / "nvidia").exists()
    assert not (kernel.PROC / "nvidia").exists()
    assert kernel.State.load().gpus == []


@pytest.mark.usefixtures("machine", "firmware")
def test_unload_is_refused_while_a_client_lives(kernel: Any, built: packages.Driver, tmp_path: Path) -> None:
    kernel.load(module_file(kernel, built, tmp_path, "open/nvidia.o"), {})
    with kernel.LIVE.open("rb") as client:
        kernel.fcntl.fcntl(client, kernel.F_OFD_SETLK, kernel.flock_struct(kernel.fcntl.F_RDLCK, 0))
        with pytest.raises(kernel.Refused, match="nvidia is in use") as refusal:
            kernel.unload("nvidia")
    assert refusal.value.code == errno.EAGAIN
    kernel.unload("nvidia")


@pytest.mark.usefixtures("machine", "firmware")
def test_modules_that_do_not_fit_are_refused(kernel: Any, built: packages.Driver, tmp_path: Path) -> None:
    with pytest.raises(kernel.Refused) as refusal:
        kernel.load(module_file(kernel, built, tmp_path, "open/nvidia-uvm.o"), {})
    assert refusal.value.code == errno.ENOENT, "unknown symbols"
    with pytest.raises(kernel.Refused) as refusal:
        kernel.load(module_file(kernel, built, tmp_path, "open/nvidia.o", "5.4.0"), {})
    assert refusal.value.code == errno.ENOEXEC, "another kernel"
    kernel.load(module_file(kernel, built, tmp_path, "open/nvidia.o"), {})
    with pytest.raises(kernel.Refused) as refusal:
        kernel.load(module_file(kernel, built, tmp_path, "open/nvidia.o"), {})
    assert refusal.value.code == errno.EEXIST


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
    kernel: Any, machine: dict[str, Any], change: dict[str, Any], version: str, flavour: str
) -> None:
    kernel.refuse_hardware(machine, "580.178.04", "open")
    with pytest.raises(kernel.Refused) as refusal:
        kernel.refuse_hardware({**machine, **change}, version, flavour)
    assert refusal.value.code == errno.ENODEV


def test_missing_gpu_leaves_pci_at_once_and_nvml_at_the_next_load(
    kernel: Any, machine: dict[str, Any]
) -> None:
    state = kernel.State.load()
    state.gpus, state.modules = kernel.probe_gpus(machine), ["nvidia"]
    state.values.update(version="580.178.04", flavour="open")
    state.save()
    kernel.fault("gpu-missing", None, 1)
    lost = sorted(gpu["pci"] for gpu in machine["gpus"])[1]
    assert not (kernel.PCI / "devices" / lost).exists()
    assert len(kernel.State.load().gpus) == 4
    assert len(kernel.probe_gpus(machine)) == 3


def test_ecc_error_is_remapped_when_the_driver_is_loaded_again(kernel: Any, machine: dict[str, Any]) -> None:
    state = kernel.State.load()
    state.gpus, state.modules = kernel.probe_gpus(machine), ["nvidia"]
    state.values.update(version="580.178.04", flavour="open")
    state.save()
    kernel.fault("ecc-uncorrectable", None, 0)
    row = kernel.State.load().gpus[0]
    assert (row["ecc"], row["pending"], row["remapped"]) == ("1", "1", "0")
    assert [xid["code"] for xid in kernel.State.load().xids] == ["48", "63"]
    rows = kernel.faults()
    rows[0]["remapped"] = True
    kernel.save_faults(rows)
    row = kernel.probe_gpus(machine)[0]
    assert (row["ecc"], row["ecc_total"], row["pending"], row["remapped"]) == ("0", "1", "0", "1")


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    ("kind", "code", "gpu"),
    [("xid", None, 0), ("gpu-lost", None, 9), ("throttle", 3, 0), ("driver-not-loaded", None, 0)],
)
def test_faults_that_make_no_sense_are_refused(kernel: Any, kind: str, code: int | None, gpu: int) -> None:
    with pytest.raises(kernel.Refused):
        kernel.fault(kind, code, gpu)
    assert kernel.faults() == []


def test_mig_minors_are_numbered_as_the_driver_does(kernel: Any) -> None:
    lines = kernel.mig_minors().splitlines()
    assert lines[:5] == [
        "config 1",
        "monitor 2",
        "gpu0/gi0/access 3",
        "gpu0/gi0/ci0/access 4",
        "gpu0/gi0/ci1/access 5",
    ]
    assert "gpu0/gi1/access 12" in lines
    assert "gpu1/gi0/access 138" in lines


@pytest.mark.usefixtures("machine", "firmware")
def test_delays_are_waited_for(
    kernel: Any, built: packages.Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(kernel.time, "sleep", slept.append)
    delays.write(tmp_path, Delays(boot=3, module_load=20, fabric=45))
    kernel.load(module_file(kernel, built, tmp_path, "open/nvidia.o"), {})
    assert slept == [20]
    kernel.fabric("in-progress")
    assert kernel.State.load().values["fabric_delay_ms"] == "45000"
    # Loading takes the fabric down; its manager asks again when it begins.
    delays.write(tmp_path, Delays(fabric=0.5))
    kernel.fabric("in-progress")
    assert kernel.State.load().values["fabric_delay_ms"] == "500"
    assert kernel.delay_s("boot") == 0


def test_a_machine_without_delays_is_fast(kernel: Any) -> None:
    assert [kernel.delay_s(name) for name in ("boot", "module_load", "fabric")] == [0, 0, 0]
