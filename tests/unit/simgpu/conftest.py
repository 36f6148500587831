"""The simulated kernel, test builds of the libraries, and a fake root that both share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest
from gpulab.simgpu.hardware import describe
from simgpu import driver, paths, pci
from simgpu.hardware import Machine
from simgpu.state import State

VERSION = "580.178.04"
OTHER = "580.95.05"
PLACES = {
    "RUN": "run/simgpu",
    "LIVE": "run/simgpu/live",
    "HARDWARE": "hardware.json",
    "FAULTS": "faults.json",
    "INFOROM": "inforom.json",
    "DELAYS": "delays.json",
    "SAVED": "saved",
    "DEV": "dev",
    "PCI": "pci",
    "MODULES": "module",
    "PROC": "proc",
    "PROCESSES": "processes",  # not those of the machine that runs the tests
    "CONTAINERD": "containerd.toml",
}
"""Where the simulated kernel's files are below the test's folder."""


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulated kernel with its files in the test's folder."""
    for name, place in PLACES.items():
        monkeypatch.setattr(paths, name, tmp_path / place)
    for folder in ("run/simgpu", "pci/devices", "pci/drivers", "module", "proc", "processes", "dev"):
        (tmp_path / folder).mkdir(parents=True)


@pytest.fixture
def machine(kernel: None) -> Machine:
    """An HGX machine with four GPUs on its PCI tree, no driver loaded."""
    return powered_on("h100-sxm", 4)


def powered_on(model: str, gpus: int) -> Machine:
    """A machine with so many GPUs of a model, no driver loaded; with fixture 'kernel'."""
    content = cast(Machine, describe(model, gpus, "gpu-1"))
    paths.HARDWARE.write_text(json.dumps(content))
    for gpu in content["gpus"]:
        pci.add_gpu(content, gpu["pci"])
    for switch in content["nvswitches"]:
        pci.add_switch(switch["pci"], switch["device_id"])
    driver.fresh_state(content).save()
    return content


@pytest.fixture
def driven(machine: Machine) -> Machine:
    """The same machine with the driver loaded."""
    state = State.load()
    state.gpus = driver.probe_gpus(machine)
    state.modules = ["nvidia", "nvidia_uvm"]
    state.values.update(version=VERSION, flavour="open")
    state.save()
    return machine
