"""The operating system and the machine."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import os
import platform
import socket
import time
from dataclasses import dataclass

from gpusmith.probe.files import read_text

VIRTUAL_VENDORS = ("QEMU", "Xen", "VMware, Inc.", "Google", "Amazon EC2", "Microsoft Corporation")
"""Vendors that make virtual machines only; they build no machine with NVIDIA GPUs."""


@dataclass(frozen=True)
class Host:
    """Which machine it is, and what runs on it.

    Attributes:
        boot_id: another one at every boot.
        machine_id: another one for every installed system, unless somebody copied it.
        system_uuid: of the board, by its firmware.
        virtual: whether a hypervisor runs it; None if the machine does not tell.
        cgroup_v2: whether control groups are the unified ones; None if there are none.
        user_land: what the user land is, where that is not the distribution's; None if the machine says nothing of that.
    """

    hostname: str = ""
    boot_id: str | None = None
    machine_id: str | None = None
    system_uuid: str | None = None
    kernel: str | None = None
    architecture: str | None = None
    os_id: str | None = None
    os_version: str | None = None
    time_unix: float | None = None
    virtual: bool | None = None
    cgroup_v2: bool | None = None
    user_land: str | None = None


def read_os_release(text: str) -> dict[str, str]:
    """The assignments of an os-release file."""
    found = {}
    for line in text.splitlines():
        key, separator, value = line.partition("=")
        if separator:
            found[key.strip()] = value.strip().strip("\"'")
    return found


def is_virtual(cpus: str | None, vendor: str | None) -> bool | None:
    """By the CPU flags in /proc/cpuinfo on x86; elsewhere by the machine's vendor."""
    flags = [line for line in (cpus or "").splitlines() if line.startswith("flags")]
    if flags:
        return "hypervisor" in flags[0].split()
    return vendor in VIRTUAL_VENDORS if vendor else None


def is_cgroup_v2(root: str = "/sys/fs/cgroup") -> bool | None:
    """Whether control groups are the unified ones; beside older ones these are below another folder, and unused."""
    return os.path.exists(root + "/cgroup.controllers") if os.path.isdir(root) else None


def gather() -> Host:
    """The machine that this runs on."""
    release = read_os_release(read_text("/etc/os-release") or "")
    return Host(
        hostname=socket.gethostname(),
        boot_id=read_text("/proc/sys/kernel/random/boot_id"),
        # As the kubelet reads them.
        machine_id=read_text("/etc/machine-id") or read_text("/var/lib/dbus/machine-id"),
        system_uuid=read_text("/sys/class/dmi/id/product_uuid"),
        kernel=platform.release(),
        architecture=platform.machine(),
        os_id=release.get("ID"),
        os_version=release.get("VERSION_ID"),
        time_unix=time.time(),
        user_land=read_text("/etc/gpusmith-user-land"),
        cgroup_v2=is_cgroup_v2(),
        virtual=is_virtual(read_text("/proc/cpuinfo"), read_text("/sys/class/dmi/id/sys_vendor")),
    )
