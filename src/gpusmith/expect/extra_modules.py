"""Modules that use the driver's, for RDMA and direct storage: declared in the inventory, loaded, and loaded by boots."""

from __future__ import annotations

from gpusmith.expect import kernels, versions
from gpusmith.expect.wanted import Driver
from gpusmith.probe.kernels import Kernel
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
        running = [kernel for kernel in record.kernels or () if kernel.release == record.host.kernel]
        if any(kernel.dependents.get(name) is False for kernel in running):
            return (
                "is not loaded, and was not built for this driver",
                "Run site.yml, which has DKMS build it.",
            )
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


def by_dkms(record: Record, wanted: Driver) -> bool:
    """Whether DKMS builds a declared module, for which it needs headers also where the driver's modules come built."""
    return any(name in kernel.dependents for kernel in record.kernels or () for name in wanted.extra_modules)


def to_rebuild(record: Record, wanted: Driver, loaded_too: bool = False) -> dict[str, list[str]]:
    """Declared modules that DKMS has to build anew for the driver, by release of their kernels, the running one first.

    DKMS builds them when they or a kernel come, not when the driver changes, of which they have the symbols and structures.

    Args:
        record: of the node.
        wanted: the driver.
        loaded_too: also those that a node of a cluster has loaded, where its driver is being changed. Else they stay: they work.
    """
    working = {name for name, loaded in record.system.modules.items() if loaded and record.kubernetes.joined}
    names = [name for name in wanted.extra_modules if loaded_too or name not in working]
    changes = record.module.installed_version not in (None, versions.upstream(wanted.version))
    rows = {kernel.release: kernel for kernel in record.kernels or () if kernel.headers}
    found = {
        release: [name for name in names if _is_old(rows[release], name, changes)]
        for release in kernels.bootable(record)
        if release in rows
    }
    return {release: old for release, old in found.items() if old}


def _is_old(kernel: Kernel, name: str, changes: bool) -> bool:
    """Whether a module is of another driver, or will be; what DKMS does not know, it cannot build."""
    return name in kernel.dependents and (changes or not kernel.dependents[name])
