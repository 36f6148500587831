"""CUDA: our own kernel on every GPU of the container, its result compared with the CPU's."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import gpu_driver
from gpu_driver import ProgramError


def work(library: Any = None, nvml: Any = None) -> dict[str, Any]:
    """Exercise all devices; the libraries are replaced in tests."""
    library = library if library is not None else gpu_driver.load("libcuda.so.1")
    is_simulated = gpu_driver.simulated(library)
    cuda = gpu_driver.Cuda(library)
    count, wanted = cuda.start(), int(os.environ.get("GPUSMITH_GPUS", "1"))
    if count != wanted:
        raise ProgramError(f"CUDA sees {count} devices in this container, it was given {wanted}")
    shown = {
        gpu["uuid"]
        for gpu in gpu_driver.nvml_gpus(nvml if nvml is not None else gpu_driver.load("libnvidia-ml.so.1"))
    }
    devices = [gpu_driver.exercise(cuda, ordinal, is_simulated) for ordinal in range(count)]
    seen = {device["uuid"] for device in devices}
    if seen != shown:
        raise ProgramError(f"CUDA shows {sorted(seen)}, NVML shows {sorted(shown)}")
    version = ctypes.c_int()
    cuda.call("cuDriverGetVersion", ctypes.byref(version))
    return {
        "simulated": is_simulated,
        "not_executed": ["the kernel on the device"] if is_simulated else [],
        "devices": devices,
        "cuda_driver_api": f"{version.value // 1000}.{version.value % 1000 // 10}",
    }


if __name__ == "__main__":
    gpu_driver.run("cuda", work)
