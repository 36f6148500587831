"""Modules that use the driver's, for RDMA and direct storage: declared in the inventory, loaded, and loaded by boots."""

from __future__ import annotations

from gpusmith.expect.wanted import Driver
from gpusmith.probe.record import Record
from gpusmith.problems import Problem

BROUGHT_BY = {
    "nvidia_peermem": "the driver's packages bring it, and it needs 'ib_core' with peer memory",
    "gdrdrv": "GDRCopy's packages bring it",
    "nvidia_fs": "GPUDirect Storage's packages bring it",
}
"""By module, what a person should know who misses it."""


def problems(record: Record, wanted: Driver) -> list[Problem]:
    """Each that is not loaded, or that boots do not load."""
    node, found = wanted.node, []
    for name in wanted.extra_modules:
        cause, step = _wrong(record, name, node)
        if cause:
            found.append(
                Problem(
                    f"Node '{node}': module '{name}' {cause} ('nvidia_driver_extra_modules').",
                    step,
                    {"module": name},
                )
            )
    return found


def _wrong(record: Record, name: str, node: str) -> tuple[str, str]:
    """What is wrong with a module, and what to do; nothing if it is as wanted."""
    if not record.system.modules.get(name):
        return (
            "is not loaded",
            f"Run 'modprobe {name}' on '{node}', and read what it says: {BROUGHT_BY[name]}.",
        )
    boots = record.boot.modules.get(name) if record.boot is not None else None
    if record.boot is not None and (boots is None or boots.file is None):
        return "is loaded, and boots do not load it", "Run site.yml for the node."
    if boots is not None and boots.forbidden_by:
        step = "Find out who wrote that file, or take the module out of 'nvidia_driver_extra_modules'."
        return f"is loaded, and '{boots.forbidden_by}' keeps boots from loading it", step
    return "", ""
