"""The operating system and the machine."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import platform
import socket
import time
from dataclasses import dataclass

from gpusmith.probe.files import read_text


@dataclass(frozen=True)
class Host:
    """Which machine it is, and what runs on it."""

    hostname: str = ""
    boot_id: str | None = None
    kernel: str | None = None
    architecture: str | None = None
    os_id: str | None = None
    os_version: str | None = None
    uptime_s: float | None = None
    time_unix: float | None = None


def read_os_release(text: str) -> dict[str, str]:
    """The assignments of an os-release file."""
    found = {}
    for line in text.splitlines():
        key, separator, value = line.partition("=")
        if separator:
            found[key.strip()] = value.strip().strip("\"'")
    return found


def gather() -> Host:
    """The machine that this runs on."""
    release = read_os_release(read_text("/etc/os-release") or "")
    uptime = read_text("/proc/uptime")
    return Host(
        hostname=socket.gethostname(),
        boot_id=read_text("/proc/sys/kernel/random/boot_id"),
        kernel=platform.release(),
        architecture=platform.machine(),
        os_id=release.get("ID"),
        os_version=release.get("VERSION_ID"),
        uptime_s=float(uptime.split()[0]) if uptime else None,
        time_unix=time.time(),
    )
