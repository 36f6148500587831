"""What the machine has, and how slow it is: files that the lab writes."""

from __future__ import annotations

import errno
import json
from typing import TypedDict, cast

from simgpu import paths
from simgpu.errors import RefusedError

SCHEMA = "gpusmith.simgpu/1"


class Gpu(TypedDict):
    """One GPU."""

    pci: str
    uuid: str
    serial: str
    numa_node: int


class Switch(TypedDict):
    """One NVSwitch, or one network function that manages switches."""

    pci: str
    device_id: str


class Machine(TypedDict):
    """The content of hardware.json; the GPUs are in the order of the kernel's enumeration."""

    schema: str
    machine: str
    model: str
    name: str
    architecture: str
    compute_capability: list[int]
    memory_mib: int
    power_limit_w: int
    multiprocessors: int
    pci_device_id: str
    pci_subsystem_id: str
    pci_class: str
    pcie_gen: int
    pcie_width: int
    mig: bool
    mig_instances: int
    mig_compute: int
    mig_memory: int
    mig_profiles: list[dict[str, str]]
    nvlinks: int
    fabric_manager: bool
    fabric_state_in_nvml: bool
    open_module: str
    min_driver_branch: int
    gpus: list[Gpu]
    nvswitches: list[Switch]
    switch_managers: list[Switch]


def hardware() -> Machine:
    """The hardware of this machine.

    Raises:
        RefusedError: it has none, or the file is of another schema.
    """
    try:
        content = json.loads(paths.HARDWARE.read_text())
    except FileNotFoundError:
        raise RefusedError(
            errno.ENODEV, f"this machine has no simulated hardware ({paths.HARDWARE} is missing)"
        ) from None
    if content.get("schema") != SCHEMA:
        raise RefusedError(
            errno.EINVAL, f"{paths.HARDWARE} has schema '{content.get('schema')}', not '{SCHEMA}'"
        )
    return cast(Machine, content)


def gpu_by_index(machine: Machine, index: int | None) -> Gpu:
    """The GPU that NVML gives this index (0 if none is given).

    Raises:
        RefusedError: the machine has no such GPU.
    """
    order = sorted(machine["gpus"], key=lambda gpu: gpu["pci"])
    number = 0 if index is None else index
    if not 0 <= number < len(order):
        raise RefusedError(errno.EINVAL, f"there is no GPU {number}: this machine has {len(order)}")
    return order[number]


def inforom() -> list[str]:
    """Addresses of the GPUs that come up with MIG mode on."""
    try:
        addresses: list[str] = json.loads(paths.INFOROM.read_text())
    except FileNotFoundError:
        return []
    return addresses


def write_inforom(addresses: list[str]) -> None:
    """Keep which GPUs those are."""
    paths.INFOROM.write_text(json.dumps(sorted(set(addresses))) + "\n")


def delay_s(what: str) -> float:
    """Seconds that 'boot', 'module_load' or 'fabric' takes longer than it has to: large machines are slow."""
    try:
        return float(json.loads(paths.DELAYS.read_text())[what])
    except FileNotFoundError:
        return 0.0
