"""Isolation: a pod that asked for no GPU must not see or open any, whatever its environment says."""

from __future__ import annotations

import errno
import glob
import os
import re
import stat
import tempfile
from typing import Any

import gpu_driver
from gpu_driver import ProgramError

NVIDIA_MAJOR = 195
MINORS = 16


def open_error(path: str) -> str:
    """Name of the error that an open ends with; empty if it succeeds."""
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error.errno))
    return ""


def granted(error: str) -> bool:
    """Whether the kernel let the open through: success, or a driverless (simulated) node's ENXIO."""
    return error in ("", "ENXIO", "EIO")


def made_nodes() -> list[dict[str, Any]]:
    """Device nodes that this container could make for itself: none, without the capability to."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for minor in range(MINORS):
            path = os.path.join(folder, f"gpu{minor}")
            try:
                os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(NVIDIA_MAJOR, minor))
            except OSError:
                continue
            found.append({"path": f"mknod c {NVIDIA_MAJOR} {minor}", "error": open_error(path)})
    return found


def nvml_uuids() -> list[str]:
    """GPUs by NVML; none if the library is not there or does not start."""
    try:
        return [gpu["uuid"] for gpu in gpu_driver.nvml_gpus()]
    except (ProgramError, AttributeError):
        return []


def work(pattern: str = "/dev/nvidia*") -> dict[str, Any]:
    """Look for devices, try to make them, ask NVML."""
    present = [path for path in sorted(glob.glob(pattern)) if re.search(r"nvidia\d+$", path)]
    devices = [{"path": path, "error": open_error(path)} for path in present] + made_nodes()
    uuids = nvml_uuids()
    reachable = [row["path"] for row in devices if granted(row["error"])]
    if present or reachable or uuids:
        raise ProgramError(
            f"a pod without a GPU request sees {present or 'no device nodes'},"
            f" can open {reachable or 'none'}, NVML shows {uuids or 'none'}"
        )
    return {
        "devices": devices,
        "nvml": uuids,
        "visible_devices": os.environ.get("NVIDIA_VISIBLE_DEVICES", ""),
        "simulated": os.environ.get("GPUSMITH_SIMULATED") == "true",
        "not_executed": [],
    }


if __name__ == "__main__":
    gpu_driver.run("isolation", work)
