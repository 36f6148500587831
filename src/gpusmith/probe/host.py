"""The operating system and the machine."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from dataclasses import dataclass


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
