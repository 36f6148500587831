"""The simulated driver's packages for machines with Ubuntu's packages."""

from __future__ import annotations

from pathlib import Path

from gpulab.simgpu import ubuntu
from gpulab.simgpu.packages import Driver
from simgpu.modinfo import modinfo


def test_a_module_that_comes_built_is_for_its_kernel(built: Driver, tmp_path: Path) -> None:
    path = tmp_path / "nvidia.ko"
    path.write_bytes(ubuntu.for_kernel(built.part("open/nvidia.o").read_bytes(), "6.8.0-51-generic"))
    assert modinfo(path)["vermagic"].startswith("6.8.0-51-generic ")
    assert modinfo(path)["version"] == built.version
