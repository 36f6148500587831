"""Services of systemd."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import calendar
import time
from dataclasses import dataclass, replace

from gpusmith.probe.commands import Command

# What must run, and what our roles, or NVIDIA's packages without them, have run once at every boot. Then what rules the network.
SERVICES = (
    "containerd", "kubelet", "nvidia-persistenced", "nvidia-fabricmanager", "gpusmith-nvidia-load",
    "gpusmith-gpu-devices", "gpusmith-gpu-layout", "nvidia-cdi-refresh", "systemd-modules-load", "systemd-sysctl", "firewalld",
    "NetworkManager",
)  # fmt: skip

# It has no file, so that systemd asks for a reload of it only where it asks for one of all units.
WITHOUT_FILE = "init.scope"


@dataclass(frozen=True)
class Service:
    """A unit.

    Attributes:
        enabled: by its file; 'not-found' if there is none.
        changed: its own files are not those any more that systemd has read.
        reload_due: 'NeedDaemonReload'. From 255 on systemd says so of all units once one was enabled without a reload, as snapd
            does for mounts (manager.h, 'unit_file_state_outdated', read 2026-11-25); of a unit's own files nothing is known then.
    """

    active: str
    enabled: str
    started_unix: float | None = None
    changed: bool = False
    reload_due: bool = False


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
            due = keys.get("NeedDaemonReload") == "yes"
            found[name] = Service(
                active=keys.get("ActiveState", ""),
                enabled=keys.get("UnitFileState", "") or "not-found",
                started_unix=parse_systemd_time(keys.get("ActiveEnterTimestamp", "")) if active else None,
                changed=due,
                reload_due=due,
            )
    of_all = found.pop(WITHOUT_FILE, None)
    if of_all and of_all.reload_due:
        found = {name: replace(unit, changed=False) for name, unit in found.items()}
    return found


def parse_unit_files(text: str) -> dict[str, str]:
    """What boots do with units, by their names: rows of ``systemctl list-unit-files``."""
    rows = [line.split() for line in text.splitlines()]
    return {row[0].rpartition(".")[0]: row[1] for row in rows if len(row) > 1}


def ask() -> tuple[Command, Command]:
    """Start systemctl. What it shows of a unit's file is what it read last, so files are asked for beside that."""
    units = [name + ".service" for name in SERVICES]
    properties = "--property=Id,ActiveState,UnitFileState,ActiveEnterTimestamp,NeedDaemonReload"
    return (
        Command("systemctl", "show", properties, *units, WITHOUT_FILE),
        Command("systemctl", "list-unit-files", "--no-legend", "--no-pager", *units),
    )


def gather(asked: tuple[Command, Command], errors: list[str]) -> dict[str, Service]:
    """Units by name without '.service'."""
    shown, listed = asked
    found = parse_services(shown.output(errors) or "")
    # Status 1: none of them is there.
    files = listed.output(errors, accept=(0, 1))
    if files is None:
        return found
    states = parse_unit_files(files)
    return {name: replace(unit, enabled=states.get(name, "not-found")) for name, unit in found.items()}
