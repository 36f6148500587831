"""CUDA: our own kernel on every GPU of the container, its result compared with the CPU's; then load on all of them at once."""

from __future__ import annotations

import ctypes
import os
import time
from typing import Any

import gpu_driver
import gpu_load
from gpu_driver import ProgramError


def work(library: Any = None, nvml: Any = None) -> dict[str, Any]:
    """Exercise all devices; the libraries are replaced in tests."""
    cuda, count, is_simulated = gpu_driver.start_cuda(library)
    wanted = int(os.environ.get("GPUSMITH_GPUS", "1"))
    if count != wanted:
        raise ProgramError(f"CUDA sees {count} devices in this container, it was given {wanted}")
    shown = {gpu["uuid"] for gpu in gpu_driver.nvml_gpus(nvml)}
    devices = [gpu_driver.exercise(cuda, ordinal, is_simulated) for ordinal in range(count)]
    seen = {device["uuid"] for device in devices}
    if seen != shown:
        raise ProgramError(f"CUDA shows {sorted(seen)}, NVML shows {sorted(shown)}")
    # A simulated GPU executes nothing: what slows it down is read all the same.
    load_s = 0.0 if is_simulated else float(os.environ.get("GPUSMITH_LOAD_S", "0"))
    slowdowns = gpu_load.under_load(cuda, nvml, count, load_s)
    version = ctypes.c_int()
    cuda.call("cuDriverGetVersion", ctypes.byref(version))
    return {
        "simulated": is_simulated,
        "not_executed": ["the kernel on the device", "load"] if is_simulated else [],
        "devices": devices,
        "load_s": load_s,
        "slowdowns": slowdowns,
        "cuda_driver_api": f"{version.value // 1000}.{version.value % 1000 // 10}",
    }


if __name__ == "__main__":
    gpu_driver.run("cuda", work)
    # Where pods have shares of GPUs, one that ended would leave its share to the next of them.
    time.sleep(float(os.environ.get("GPUSMITH_HOLD_S", "0")))
