"""The simulated kernel as a module, test builds of the libraries, and a fake root that both share."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from gpulab.simgpu import packages, source_dir
from gpulab.simgpu.hardware import describe

VERSION = "580.178.04"
OTHER = "580.95.05"


def load_script(path: Path, name: str) -> ModuleType:
    """Import a program that has no .py suffix."""
    loader = importlib.machinery.SourceFileLoader(name, str(path))
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    loader.exec_module(module)
    sys.dont_write_bytecode = written
    return module


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with libnvidia-ml.so.1 and libcuda.so.1 that take their paths from SIMGPU_TEST_ROOT."""
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed (lab/simgpu/host.txt)")
    out = tmp_path_factory.mktemp("libraries")
    for source, name in (("nvml.c", "libnvidia-ml.so.1"), ("cuda.c", "libcuda.so.1")):
        packages.compile_library(source, out / name, name, VERSION, 13000, ("-DSIMGPU_TEST", "-O0"))
    return out


@dataclass
class Node:
    """A fake node: its live state, device nodes and clients."""

    root: Path
    kernel: Any
    libraries: Path

    def devices(self, *minors: int) -> None:
        """Make exactly these GPUs' device nodes."""
        dev = self.root / "dev"
        shutil.rmtree(dev, ignore_errors=True)
        dev.mkdir()
        for name in ["nvidiactl", "nvidia-uvm", *(f"nvidia{minor}" for minor in minors)]:
            (dev / name).touch()

    def change(self, **values: str) -> None:
        state = self.kernel.State.load()
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
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The simulated kernel's program, with its files in the test's folder."""
    module = load_script(source_dir() / "rootfs" / "usr" / "lib" / "simgpu" / "simgpu", "simgpu")
    run = tmp_path / "run" / "simgpu"
    run.mkdir(parents=True)
    for name, path in {
        "RUN": run,
        "LIVE": run / "live",
        "HARDWARE": tmp_path / "hardware.json",
        "FAULTS_FILE": tmp_path / "faults.json",
        "DELAYS": tmp_path / "delays.json",
        "PCI": tmp_path / "pci",
        "MODULES": tmp_path / "module",
        "PROC": tmp_path / "proc",
    }.items():
        monkeypatch.setattr(module, name, path)
    for folder in ("pci/devices", "pci/drivers", "module", "proc"):
        (tmp_path / folder).mkdir(parents=True)
    return module


@pytest.fixture
def machine(kernel: Any) -> dict[str, Any]:
    """An HGX machine with four GPUs on its PCI tree, no driver loaded."""
    content = describe("h100-sxm", 4, "gpu-1")
    kernel.HARDWARE.write_text(json.dumps(content))
    for gpu in content["gpus"]:
        kernel.pci_device(content, gpu["pci"])
    for switch in content["nvswitches"]:
        kernel.pci_device(content, switch["pci"], switch["device_id"])
    state = kernel.State()
    kernel.base_values(state, content)
    state.save()
    return content


@pytest.fixture
def node(tmp_path: Path, kernel: Any, machine: dict[str, Any], libraries: Path) -> Node:
    """The same machine with the driver loaded and all device nodes."""
    state = kernel.State.load()
    state.gpus = kernel.probe_gpus(machine)
    state.modules = ["nvidia", "nvidia_uvm"]
    state.values.update(version=VERSION, flavour="open")
    state.save()
    made = Node(tmp_path, kernel, libraries)
    made.devices(0, 1, 2, 3)
    return made
