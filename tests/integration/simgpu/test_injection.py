"""Putting faults in and taking them away: every fault of the registry, and what one of them does over time."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from simgpu import driver, faults_file, injection, paths, pci
from simgpu.errors import RefusedError
from simgpu.fault import Fault, forget_cured, registry, show_all
from simgpu.hardware import Machine
from simgpu.publish import publish
from simgpu.state import State

from tests.integration.simgpu.conftest import ModuleFile
from tests.unit.simgpu.conftest import OTHER, VERSION


@dataclass
class System:
    """The other programs of a node: packages, units, and modprobe."""

    module_file: ModuleFile
    packages: dict[str, str]
    held: set[str]
    asked: list[str] = field(default_factory=list)

    def __call__(self, words: Sequence[str], **_: Any) -> subprocess.CompletedProcess[str]:
        self.asked.append(" ".join(words))
        return subprocess.CompletedProcess(words, 0, self.answer(words), "")

    def answer(self, words: Sequence[str]) -> str:
        match words:
            case ["dpkg-query", "-W", query, *names]:
                values = ((name, self.packages[name]) for name in names or self.packages)
                shown = ("\t".join([*row, "ii "][: query.count("$")]) for row in values)
                return "".join(f"{line}\n" for line in shown)
            case ["apt-cache", "madison", name]:
                versions = {self.packages[name], f"{VERSION}-1", f"{OTHER}-1"}
                return "".join(f"{name} | {version} | http://depot\n" for version in versions)
            case ["apt-mark", "showhold"]:
                return "\n".join(self.held)
            case ["apt-mark", "hold", *names]:
                self.held |= set(names)
            case ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", *words]:
                changed = dict(word.split("=") for word in words[words.index("install") + 1 :])
                self.packages.update(changed)
                self.held -= set(changed)
            case ["modprobe", name]:
                driver.load(self.module_file(f"open/{name}.o"), {})
        return ""


@pytest.fixture
def system(
    machine: Machine, firmware: None, module_file: ModuleFile, monkeypatch: pytest.MonkeyPatch
) -> System:
    """A node with its driver, on which every fault can be put in."""
    for name in ("nvidia", "nvidia-uvm"):
        module_file(f"open/{name}.o")  # compiled before programs are simulated
    version = f"{VERSION}-1"
    made = System(module_file, {"libnvidia-ml1": version, "nvidia-smi": version, "bash": "5"}, {"nvidia-smi"})
    monkeypatch.setattr(subprocess, "run", made)
    monkeypatch.setattr(driver, "device_nodes", device_nodes)
    paths.CONTAINERD.write_text("version = 2\n")
    paths.SAVED.mkdir()
    faults_file.save([])
    for name in ("nvidia", "nvidia-uvm"):
        made(["modprobe", name])
    made.asked.clear()
    return made


def device_nodes(name: str) -> None:
    for node in ["nvidiactl", *(f"nvidia{row['minor']}" for row in State.load().gpus)]:
        (paths.DEV / node).touch()


def everything(system: System) -> dict[str, Any]:
    """All that a fault may change, but for the number of events and the time of the driver's load, which only ever grow."""
    state = State.load()
    root = paths.HARDWARE.parent
    files = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            files[name] = str(path.readlink())
        elif path.is_file():
            files[name] = path.read_text(errors="replace")
    return {
        **{name: text for name, text in files.items() if path_counts(name)},
        "values": {**state.values, "event_seq": ""},
        "gpus": [{**row, "energy_at_ms": ""} for row in state.gpus],
        "xids": state.xids,
        "packages": (dict(system.packages), set(system.held)),
    }


def path_counts(name: str) -> bool:
    return name not in ("faults.json", "run/simgpu/live", "run/simgpu/lock", "module.ko")


def put_in(fault: Fault) -> None:
    injection.inject(fault.name, fault.code.example if fault.code else None, 1 if fault.on_gpu else None)


@pytest.mark.parametrize("fault", registry().values(), ids=registry())
def test_healing_restores_what_a_fault_changed(system: System, fault: Fault) -> None:
    before = everything(system)
    put_in(fault)
    assert [row["kind"] for row in faults_file.present()] == [fault.name]
    assert everything(system) != before
    injection.heal()
    assert everything(system) == before
    assert faults_file.present() == []

    system.asked.clear()
    injection.heal()
    assert everything(system) == before
    assert system.asked == [], "without a fault, healing does nothing"


def test_all_faults_at_once_are_healed_at_once(system: System) -> None:
    before = everything(system)
    # The one that takes the driver away comes last: others need it.
    for fault in sorted(registry().values(), key=lambda fault: bool(fault.load_refusal)):
        put_in(fault)
    assert {row["kind"] for row in faults_file.present()} == set(registry())
    injection.heal()
    assert everything(system) == before


@pytest.mark.parametrize("fault", registry().values(), ids=registry())
def test_a_fault_is_in_once_unless_it_adds_up(system: System, fault: Fault) -> None:
    put_in(fault)
    if fault.load_refusal:
        assert "nvidia" not in State.load().modules
    put_in(fault)
    assert len(faults_file.present()) == (2 if fault.repeatable else 1)
    before = everything(system)
    injection.heal()
    assert everything(system) != before
    assert faults_file.present() == []


def reboot(machine: Machine) -> None:
    """What a boot does about faults."""
    forget_cured()
    state = driver.fresh_state(machine)
    for gpu in machine["gpus"]:
        pci.add_gpu(machine, gpu["pci"])
    show_all(machine, state)
    state.save()
    publish(state)


@pytest.mark.parametrize("fault", registry().values(), ids=registry())
def test_a_reboot_cures_what_it_cures_in_life(system: System, machine: Machine, fault: Fault) -> None:
    put_in(fault)
    reboot(machine)
    assert bool(faults_file.present()) is not fault.cured_by_reboot
    if fault.load_refusal:
        with pytest.raises(RefusedError):
            system(["modprobe", "nvidia"])
        assert State.load().gpus == []
    else:
        system(["modprobe", "nvidia"])
        assert len(State.load().gpus) == (3 if fault.name == "gpu-missing" else 4)


def test_a_hot_gpu_and_a_broken_switch_outlive_the_driver(system: System) -> None:
    for name in ("throttle", "fabric-manager-down"):
        put_in(registry()[name])
    driver.reload()
    state = State.load()
    assert [row["temp"] for row in state.gpus] == ["31", "91", "31", "31"]
    assert state.values["fabric_broken"] == "1"


def test_a_repaired_configuration_is_not_replaced_again(system: System) -> None:
    put_in(registry()["containerd-config-clobbered"])
    paths.CONTAINERD.write_text("version = 3\n")
    injection.heal()
    assert paths.CONTAINERD.read_text() == "version = 3\n"


def test_monitors_begin_anew_after_a_gpu_was_lost(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, _: ended.append(pid))
    for pid, name in ((7, "nvidia-device-p"), (8, "kubelet")):
        (paths.PROCESSES / str(pid)).mkdir()
        (paths.PROCESSES / str(pid) / "comm").write_text(f"{name}\n")
    for name, expected in (("throttle", []), ("gpu-lost", [7])):
        put_in(registry()[name])
        injection.heal()
        assert ended == expected, name


def test_a_fault_of_another_version_is_forgotten(system: System) -> None:
    faults_file.save([{"kind": "gpu-on-fire", "pci": None, "since": 1}])
    driver.reload()
    injection.heal()
    assert faults_file.present() == []


@pytest.mark.usefixtures("system")
def test_missing_gpu_leaves_pci_at_once_and_nvml_at_the_next_load(machine: Machine) -> None:
    injection.inject("gpu-missing", None, 1)
    lost = sorted(gpu["pci"] for gpu in machine["gpus"])[1]
    assert not (paths.PCI / "devices" / lost).exists()
    assert len(State.load().gpus) == 4
    driver.reload()
    assert len(State.load().gpus) == 3


@pytest.mark.usefixtures("system")
def test_ecc_error_is_remapped_when_the_driver_is_loaded_again() -> None:
    injection.inject("ecc-uncorrectable", None, 0)
    row = State.load().gpus[0]
    assert (row["ecc"], row["ecc_total"], row["pending"], row["remapped"]) == ("1", "1", "1", "0")
    assert [xid["code"] for xid in State.load().xids] == ["48", "63"]
    driver.reload()
    row = State.load().gpus[0]
    assert (row["ecc"], row["ecc_total"], row["pending"], row["remapped"]) == ("0", "1", "0", "1")
    assert faults_file.present()[0]["remapped"] is True


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    ("kind", "code", "gpu"),
    [("xid", None, 0), ("gpu-lost", None, 9), ("throttle", 3, 0), ("driver-not-loaded", None, 0)],
)
def test_faults_that_make_no_sense_are_refused(kind: str, code: int | None, gpu: int) -> None:
    with pytest.raises(RefusedError):
        injection.inject(kind, code, gpu)
    assert faults_file.present() == []


@pytest.mark.parametrize("name", ["xid", "gpu-lost", "ecc-uncorrectable", "driver-library-mismatch"])
@pytest.mark.usefixtures("machine")
def test_a_fault_that_needs_the_driver_is_refused_without_it(name: str) -> None:
    with pytest.raises(RefusedError, match="driver"):
        put_in(registry()[name])
    assert faults_file.present() == []


def test_a_machine_without_switches_has_no_fabric_manager(machine: Machine) -> None:
    machine["fabric_manager"] = False
    paths.HARDWARE.write_text(json.dumps(machine))
    with pytest.raises(RefusedError, match="has no NVSwitch"):
        put_in(registry()["fabric-manager-down"])
