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
HARMLESS = (1, 3)
"""Numbers of /dev/null, which every container may make and open: what cannot be done with it says nothing about GPUs."""


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


def made_node(major: int, minor: int) -> str:
    """The error with which a device node that this container makes for itself is opened, or `mknod` and why it cannot be made."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "node")
        try:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, minor))
        except OSError as error:
            return f"mknod: {errno.errorcode.get(error.errno or 0, str(error.errno))}"
        return open_error(path)


def made_nodes() -> tuple[list[dict[str, Any]], str]:
    """GPUs behind device nodes of its own; and why that was not tried, where it cannot even make a harmless one."""
    control = made_node(*HARMLESS)
    if control:
        return [], f"making device nodes, since not even one of /dev/null can be made and opened ({control})"
    tried = [(minor, made_node(NVIDIA_MAJOR, minor)) for minor in range(MINORS)]
    return [{"path": f"mknod c {NVIDIA_MAJOR} {minor}", "error": error} for minor, error in tried], ""


def nvml_uuids() -> list[str]:
    """GPUs by NVML; none if the library is not there or does not start."""
    try:
        return [gpu["uuid"] for gpu in gpu_driver.nvml_gpus()]
    except (ProgramError, AttributeError):
        return []


def work(pattern: str = "/dev/nvidia*") -> dict[str, Any]:
    """Look for devices, try to make them, ask NVML."""
    present = [path for path in sorted(glob.glob(pattern)) if re.search(r"nvidia\d+$", path)]
    made, not_tried = made_nodes()
    devices = [{"path": path, "error": open_error(path)} for path in present] + made
    uuids = nvml_uuids()
    reachable = [row["path"] for row in devices if granted(row["error"])]
    if present or reachable or uuids:
        raise ProgramError(
            f"a pod without a GPU request sees {present or 'no device nodes'},"
            f" can open {reachable or 'none'}, NVML shows {uuids or 'none'}"
        )
    return {
        "devices": devices,
        "not_tried": [not_tried] if not_tried else [],
        "nvml": uuids,
        "visible_devices": os.environ.get("NVIDIA_VISIBLE_DEVICES", ""),
        "simulated": os.environ.get("GPUSMITH_SIMULATED") == "true",
        "not_executed": [],
    }


if __name__ == "__main__":
    gpu_driver.run("isolation", work)
