"""What hardware a simulated machine has: the content of ``/var/lib/simgpu/hardware.json``."""

from __future__ import annotations

import uuid
from typing import Any

import yaml

from gpusmith.errors import InputError, ToolError
from gpusmith.paths import repo_root

SCHEMA = "gpusmith.simgpu/1"
MAX_GPUS = 8

# PCI buses of the eight GPU sockets in the order in which the kernel enumerates the host bridges, which is the
# order of the device minors. NVML counts by bus number instead, so on these boards index and minor differ, as on
# real HGX machines (there by firmware; the numbers here are made up).
HGX_BUSES = (0x5D, 0x1B, 0x9D, 0x44, 0xDB, 0xBB, 0xCB, 0x3C)
HGX_SWITCH_BUSES = (0x83, 0x84, 0x85, 0x86, 0x87, 0x88)
# ConnectX-7 functions of the board, by which NVLink 5 switches are managed: as many as DGX B200 shows.
HGX_MANAGER_BUSES = (0x90, 0x91, 0x92, 0x93)
MANAGER_DEVICE_ID = "0x1021"
PCIE_BUSES = (0x17, 0x31, 0x4B, 0x65, 0x98, 0xB1, 0xCA, 0xE3)

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "simgpu.gpusmith.io")


def models() -> dict[str, dict[str, Any]]:
    """The rows of data/gpus.yml by model key.

    Raises:
        ToolError: the file is missing or of another schema.
    """
    path = repo_root() / "data" / "gpus.yml"
    try:
        content = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ToolError(f"The GPU table '{path}' cannot be read: {error}.") from error
    if content.get("schema") != "gpusmith.gpus/1":
        raise ToolError(
            f"The GPU table '{path}' has schema '{content.get('schema')}', not 'gpusmith.gpus/1'."
        )
    rows: dict[str, dict[str, Any]] = content["models"]
    return rows


def describe(model: str, gpus: int, machine: str) -> dict[str, Any]:
    """Hardware of one machine; the same arguments always give the same UUIDs and serial numbers.

    Args:
        model: key of data/gpus.yml.
        gpus: number of GPUs, 0 to 8.
        machine: name of the machine, the seed of its UUIDs.

    Raises:
        InputError: unknown model, one of a machine that the lab has not, or an impossible number of GPUs.
    """
    rows = models()
    if model not in rows:
        raise InputError(f"Unknown GPU model '{model}'.", f"Choose one of: {', '.join(sorted(rows))}.")
    if not 0 <= gpus <= MAX_GPUS:
        raise InputError(f"A simulated machine cannot have '{gpus}' GPUs.", f"Choose 0 to {MAX_GPUS}.")

    row = rows[model]
    if row["refused"]:
        raise InputError(f"The lab has no machine with '{model}': {row['refused']}.", "Choose another model.")
    hgx = bool(row["fabric_manager"])
    buses = HGX_BUSES if hgx else PCIE_BUSES
    switches = HGX_SWITCH_BUSES[: row["nvswitches"]] if gpus else ()
    managers = HGX_MANAGER_BUSES if gpus and row["nvlink_subnet_manager"] else ()
    major, minor = (int(part) for part in row["compute_capability"].split("."))
    return {
        "schema": SCHEMA,
        "machine": machine,
        "model": model,
        "name": row["name"],
        "architecture": row["architecture"],
        "compute_capability": [major, minor],
        "memory_mib": row["memory_mib"],
        "power_limit_w": row["power_limit_w"],
        "multiprocessors": row["multiprocessors"],
        "pci_device_id": row["pci_device_id"],
        "pci_subsystem_id": row["pci_subsystem_id"] or "0x0001",
        "pci_class": row["pci_class"],
        "pcie_gen": row["pcie_gen"],
        "pcie_width": row["pcie_width"] or 16,
        "mig": row["mig"],
        "mig_instances": row["mig_instances"],
        "nvlinks": row["nvlinks"] or 0,
        "fabric_manager": row["fabric_manager"],
        "fabric_state_in_nvml": row["fabric_state_in_nvml"],
        "open_module": row["open_module"],
        "min_driver_branch": row["min_driver_branch"] or 0,
        # In the order of the kernel's enumeration, which gives the minors.
        "gpus": [
            {
                "pci": f"0000:{bus:02x}:00.0",
                "uuid": f"GPU-{uuid.uuid5(_NAMESPACE, f'{machine}/{slot}')}",
                "serial": str(1650000000000 + uuid.uuid5(_NAMESPACE, f"serial/{machine}/{slot}").int % 10**9),
                "numa_node": 0 if bus < 0x80 else 1,
            }
            for slot, bus in enumerate(buses[:gpus])
        ],
        "nvswitches": [
            {"pci": f"0000:{bus:02x}:00.0", "device_id": row["nvswitch_device_id"]} for bus in switches
        ],
        "switch_managers": [
            {"pci": f"0000:{bus:02x}:00.0", "device_id": MANAGER_DEVICE_ID} for bus in managers
        ],
    }
