"""Test builds of the libraries, modules as packages bring them, and a fake root beside the simulated kernel of tests/unit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from gpulab.simgpu import packages
from simgpu import driver
from simgpu.hardware import Machine
from simgpu.state import State

from tests.unit.simgpu.conftest import VERSION
from tests.unit.simgpu.conftest import driven as driven
from tests.unit.simgpu.conftest import kernel as kernel
from tests.unit.simgpu.conftest import machine as machine

ModuleFile = Callable[..., Path]


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with libnvidia-ml.so.1 and libcuda.so.1 that take their paths from SIMGPU_TEST_ROOT."""
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed (lab/simgpu/host.txt)")
    out = tmp_path_factory.mktemp("libraries")
    for source, name in (("nvml.c", "libnvidia-ml.so.1"), ("cuda.c", "libcuda.so.1")):
        packages.compile_library(source, out / name, name, VERSION, 13000, ("-DSIMGPU_TEST", "-O0"))
    return out


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> packages.Driver:
    """Modules as the driver's packages bring them."""
    return packages.Driver(tmp_path_factory.mktemp("driver"), VERSION, 13000)


@pytest.fixture
def module_file(built: packages.Driver, tmp_path: Path) -> ModuleFile:
    """Makes a module as dkms leaves it: for one kernel release."""

    def make(part: str, release: str = "") -> Path:
        return as_dkms_leaves_it(built.part(part), tmp_path, release)

    return make


@pytest.fixture
def broken_file(tmp_path: Path) -> ModuleFile:
    """The same of a version that is broken in one way."""

    def make(kind: str) -> Path:
        driver = packages.Driver(tmp_path, VERSION, 13000, breaks=kind)
        return as_dkms_leaves_it(driver.part("open/nvidia.o"), tmp_path)

    return make


def as_dkms_leaves_it(part: Path, folder: Path, release: str = "") -> Path:
    """A module for one kernel release."""
    data = part.read_bytes()
    start = data.index(b"vermagic=@")
    end = data.index(b"\0", start)
    magic = f"vermagic={release or os.uname().release} SMP".encode()
    path = folder / "module.ko"
    path.write_bytes(data[:start] + magic.ljust(end - start, b"\0") + data[end:])
    return path


@dataclass
class Node:
    """A fake node: its live state, device nodes and clients."""

    root: Path
    libraries: Path

    def devices(self, *minors: int) -> None:
        """Make exactly these GPUs' device nodes."""
        dev = self.root / "dev"
        shutil.rmtree(dev, ignore_errors=True)
        dev.mkdir()
        for name in ["nvidiactl", "nvidia-uvm", *(f"nvidia{minor}" for minor in minors)]:
            (dev / name).touch()

    def change(self, **values: str) -> None:
        state = State.load()
        state.values.update(values)
        state.save()

    def python(self, code: str, env: dict[str, str] | None = None) -> Any:
        """Run a client in a process of its own; returns the JSON that it prints last."""
        done = subprocess.run(
            self.command(code), capture_output=True, text=True, env=self.env(env), timeout=30, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def command(self, code: str) -> Sequence[str]:
        return [sys.executable, "-c", code]

    def env(self, more: dict[str, str] | None = None) -> dict[str, str]:
        return {
            **os.environ,
            "LD_LIBRARY_PATH": str(self.libraries),
            "SIMGPU_TEST_ROOT": str(self.root),
            **(more or {}),
        }


@pytest.fixture
def firmware(kernel: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The firmware package is there, and no udev rule is."""
    file = tmp_path / "firmware" / VERSION / "gsp_ga10x.bin"
    file.parent.mkdir(parents=True)
    file.touch()
    monkeypatch.setattr(driver, "FIRMWARE", tmp_path / "firmware")
    monkeypatch.setattr(driver, "device_nodes", lambda name: None)


@pytest.fixture
def node(tmp_path: Path, driven: Machine, libraries: Path) -> Node:
    """The same with all device nodes."""
    made = Node(tmp_path, libraries)
    made.devices(0, 1, 2, 3)
    return made
