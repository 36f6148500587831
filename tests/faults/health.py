"""Health of GPUs."""

from __future__ import annotations

from collections.abc import Callable

from tests.faults.fault import ADDRESS, UUID, Fault, Record, sets


def xid(code: int) -> Callable[[Record], object]:
    row = {
        "time_unix": 1.0,
        "pci": ADDRESS,
        "code": code,
        "message": f"NVRM: Xid (PCI:{ADDRESS[:-2]}): {code}, pid=1",
    }
    return lambda record: record["xids"].append(row)


FAULTS = {
    "xid-79": Fault(xid(79), "nodes.xid", ("GPU 1", UUID, ADDRESS, "Xid 79", "fallen off the bus")),
    "xid-8": Fault(xid(8), "nodes.xid", ("GPU 1", "Xid 8", "application")),
    "kernel-log-begins-late": Fault(
        sets("module", loaded_unix=None),
        "nodes.xid",
        ("after the driver was loaded",),
    ),
    "xid-of-no-list": Fault(xid(999), "nodes.xid", ("GPU 1", "Xid 999")),
    "ecc-uncorrectable": Fault(
        sets("nvml", "gpus", 1, ecc_uncorrected=2),
        "nodes.ecc",
        ("GPU 1", UUID, "2 uncorrectable"),
    ),
    "throttle": Fault(
        sets("nvml", "gpus", 1, throttle_reasons=["hw_thermal_slowdown"]),
        "nodes.throttle",
        ("GPU 1", UUID, "hw_thermal_slowdown", "too hot"),
    ),
    "row-remap-pending": Fault(
        sets("nvml", "gpus", 1, remap_pending=True),
        "nodes.row-remap",
        ("GPU 1", "waits"),
    ),
    "row-remap-failed": Fault(
        sets("nvml", "gpus", 1, remap_failed=True),
        "nodes.row-remap",
        ("GPU 1", "could not remap"),
    ),
    "narrow-link": Fault(
        sets("nvml", "gpus", 1, pcie_width=8),
        "nodes.pcie-width",
        ("GPU 1", "8 PCIe lanes", "16"),
    ),
    "narrow-slot": Fault(
        sets("nvml", "gpus", 1, pcie_width=8, pcie_width_max=8),
        "nodes.pcie-width",
        ("GPU 1", "8 PCIe lanes", "16", "slot"),
        frozenset({"nodes.uniformity"}),
    ),
}
