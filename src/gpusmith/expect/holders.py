"""Who has a GPU open without having got it of Kubernetes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection

from gpusmith.probe.record import Record
from gpusmith.probe.usage import Holder

WATCHERS = (
    "nvidia-persistenced", "nv-fabricmanager", "nvlsm", "nvidia-imex", "nvidia-powerd", "nv-hostengine", "dcgm-exporter",
    "nvidia-smi",
)  # fmt: skip
"""NVIDIA's programs that serve or watch GPUs, and compute on none."""
SCREENS = ("Xorg", "Xwayland", "gnome-shell")
"""Programs that show a desktop on every GPU that they find."""
NAME_LENGTH = 15
"""What the kernel keeps of a process's name."""


def is_any(holder: Holder, programs: Collection[str]) -> bool:
    """Whether a process is one of these programs, by its name."""
    return holder.command[:NAME_LENGTH] in {program[:NAME_LENGTH] for program in programs}


def strangers(record: Record, units: Collection[str] = ()) -> list[Holder]:
    """Processes with a GPU that are in no pod.

    Args:
        record: of the node.
        units: systemd's, whose processes may use GPUs.
    """
    known = {unit.removesuffix(".service") for unit in units}
    return [
        holder
        for holder in record.holders or ()
        if holder.minors
        and not holder.pod_uid
        and not is_any(holder, (*WATCHERS, *SCREENS))
        and (holder.unit or "").removesuffix(".service") not in known
    ]


def screens(record: Record) -> list[str]:
    """Desktops on GPUs, in words."""
    rows = [row for row in record.holders or () if row.minors and not row.pod_uid and is_any(row, SCREENS)]
    return [
        f"{row.words}: a desktop takes memory of GPUs, and keeps the driver from being unloaded"
        for row in rows
    ]


def since(holder: Holder) -> str:
    """When a process started, in words."""
    if holder.started_unix is None:
        return ""
    return f"{dt.datetime.fromtimestamp(holder.started_unix, dt.UTC):%Y-%m-%d %H:%M} UTC"
