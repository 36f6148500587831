"""What hardware a simulated machine has: the content of ``/var/lib/simgpu/hardware.json``."""

from __future__ import annotations

import re
import uuid
from typing import Any

import pynvml

from gpusmith import yaml_text
from gpusmith.data import mig
from gpusmith.data import models as gpu_models
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

# Numbers that 'nvidia-smi mig -lgip' shows and '-cgi' takes, by table of data/mig.yml: from NVIDIA's MIG user guide (A100), and
# what the program shows of A30 and RTX PRO 6000. Programs ask NVML for them.
MIG_IDS = {
    "a100": {"1_SLICE": 19, "1_SLICE_REV1": 20, "1_SLICE_REV2": 15, "2_SLICE": 14, "3_SLICE": 9, "4_SLICE": 5, "7_SLICE": 0},
    "a30": {"1_SLICE": 14, "1_SLICE_REV1": 21, "2_SLICE": 5, "2_SLICE_REV1": 6, "4_SLICE": 0},
    "rtx-pro-6000": {
        "1_SLICE": 14, "1_SLICE_REV1": 21, "1_SLICE_NO_ME": 67, "2_SLICE": 5, "2_SLICE_NO_ME": 66, "4_SLICE": 0,
    },
}  # fmt: skip

DEVICE = re.compile("[0-9a-f]{4}")
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "simgpu.gpusmith.io")


def models() -> dict[str, dict[str, Any]]:
    """The rows of data/gpus.yml by model key.

    Raises:
        ToolError: the file is missing or of another schema.
    """
    path = repo_root() / "data" / "gpus.yml"
    try:
        content = yaml_text.load(path.read_text())
    except OSError as error:
        raise ToolError(f"The GPU table '{path}' cannot be read: {error}.") from error
    if content.get("schema") != "gpusmith.gpus/1":
        raise ToolError(
            f"The GPU table '{path}' has schema '{content.get('schema')}', not 'gpusmith.gpus/1'."
        )
    rows: dict[str, dict[str, Any]] = content["models"]
    return rows


def row(model: str) -> dict[str, Any]:
    """The row of a model; of 'KEY@DEVICE' with another PCI device ID, so that the GPUs are no row.

    Raises:
        InputError: it is none, or the lab has no such machine.
    """
    key, _, device = model.partition("@")
    rows = models()
    if key not in rows:
        raise InputError(f"Unknown GPU model '{key}'.", f"Choose one of: {', '.join(sorted(rows))}.")
    if rows[key]["refused"]:
        raise InputError(
            f"The lab has no machine with '{key}': {rows[key]['refused']}.", "Choose another model."
        )
    if "@" in model and not DEVICE.fullmatch(device):
        raise InputError(f"'{device}' is no PCI device ID.", "Give four hexadecimal digits, such as '2bbf'.")
    return {**rows[key], **({"pci_device_id": f"0x{device}"} if device else {})}


def _mig(key: str) -> dict[str, Any]:
    """How MIG divides a GPU of a model; the profiles are as the live state has them."""
    wanted = gpu_models.load()[key]
    how = mig.of_model(wanted) or mig.Partitioning(0, 0, ())
    return {
        "mig_compute": how.compute_slices,
        "mig_memory": how.memory_slices,
        "mig_profiles": [
            {
                "nvml": str(getattr(pynvml, f"NVML_GPU_INSTANCE_PROFILE_{profile.nvml}")),
                "id": str(MIG_IDS[wanted.mig_table][profile.nvml]),
                "name": profile.name,
                "compute": str(profile.compute),
                "memory": str(profile.memory),
                "most": str(profile.most),
                "starts": ",".join(map(str, profile.starts)),
            }
            for profile in how.profiles
        ],
    }


def describe(model: str, gpus: int, machine: str) -> dict[str, Any]:
    """Hardware of one machine; the same arguments always give the same UUIDs and serial numbers.

    Args:
        model: key of data/gpus.yml, or 'KEY@DEVICE'.
        gpus: number of GPUs, 0 to 8.
        machine: name of the machine, the seed of its UUIDs.

    Raises:
        InputError: unknown model, one of a machine that the lab has not, or an impossible number of GPUs.
    """
    if not 0 <= gpus <= MAX_GPUS:
        raise InputError(f"A simulated machine cannot have '{gpus}' GPUs.", f"Choose 0 to {MAX_GPUS}.")

    its = row(model)
    hgx = bool(its["fabric_manager"])
    buses = HGX_BUSES if hgx else PCIE_BUSES
    switches = HGX_SWITCH_BUSES[: its["nvswitches"]] if gpus else ()
    managers = HGX_MANAGER_BUSES if gpus and its["nvlink_subnet_manager"] else ()
    major, minor = (int(part) for part in its["compute_capability"].split("."))
    return {
        "schema": SCHEMA,
        "machine": machine,
        "model": model,
        "name": its["name"],
        "architecture": its["architecture"],
        "compute_capability": [major, minor],
        "memory_mib": its["memory_mib"],
        "power_limit_w": its["power_limit_w"],
        "multiprocessors": its["multiprocessors"],
        "pci_device_id": its["pci_device_id"],
        "pci_subsystem_id": its["pci_subsystem_id"] or "0x0001",
        "pci_class": its["pci_class"],
        "pcie_gen": its["pcie_gen"],
        "pcie_width": its["pcie_width"] or 16,
        "mig": its["mig"],
        "mig_instances": its["mig_instances"],
        **_mig(model.partition("@")[0]),
        "nvlinks": its["nvlinks"] or 0,
        "fabric_manager": its["fabric_manager"],
        "fabric_state_in_nvml": its["fabric_state_in_nvml"],
        "open_module": its["open_module"],
        "min_driver_branch": its["min_driver_branch"] or 0,
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
            {"pci": f"0000:{bus:02x}:00.0", "device_id": its["nvswitch_device_id"]} for bus in switches
        ],
        "switch_managers": [
            {"pci": f"0000:{bus:02x}:00.0", "device_id": MANAGER_DEVICE_ID} for bus in managers
        ],
    }
