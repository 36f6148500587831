"""Services of systemd."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import calendar
import time
from dataclasses import dataclass

from gpusmith.probe.commands import Command

# What must run, and what our roles, or NVIDIA's packages without them, have run once at every boot.
SERVICES = (
    "containerd", "kubelet", "nvidia-persistenced", "nvidia-fabricmanager", "gpusmith-nvidia-load", "gpusmith-gpu-devices",
    "nvidia-cdi-refresh", "systemd-modules-load", "systemd-sysctl",
)  # fmt: skip


@dataclass(frozen=True)
class Service:
    """A unit.

    Attributes:
        enabled: 'not-found' if there is no such unit.
        changed: its files are not those any more that systemd has read ('NeedDaemonReload').
    """

    active: str
    enabled: str
    started_unix: float | None = None
    changed: bool = False


def parse_systemd_time(text: str) -> float | None:
    """Unix time of systemd's own format in UTC, for example 'Sat 2026-11-21 10:11:57 UTC'."""
    try:
        return float(calendar.timegm(time.strptime(text.strip(), "%a %Y-%m-%d %H:%M:%S UTC")))
    except ValueError:
        return None


def parse_services(text: str) -> dict[str, Service]:
    """Units of ``systemctl show``: blocks of KEY=VALUE, divided by empty lines."""
    found = {}
    for block in text.split("\n\n"):
        keys = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        name = keys.get("Id", "")
        if name.endswith(".service"):
            name = name[: -len(".service")]
        if name:
            active = keys.get("ActiveState", "") == "active"
            found[name] = Service(
                active=keys.get("ActiveState", ""),
                enabled=keys.get("UnitFileState", "") or "not-found",
                started_unix=parse_systemd_time(keys.get("ActiveEnterTimestamp", "")) if active else None,
                changed=keys.get("NeedDaemonReload") == "yes",
            )
    return found


def ask() -> Command:
    """Start systemctl."""
    properties = "--property=Id,ActiveState,UnitFileState,ActiveEnterTimestamp,NeedDaemonReload"
    return Command("systemctl", "show", properties, *(name + ".service" for name in SERVICES))


def gather(asked: Command, errors: list[str]) -> dict[str, Service]:
    """Units by name without '.service'."""
    return parse_services(asked.output(errors) or "")
