"""NVIDIA's devices on the PCI bus."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import glob
import os
from dataclasses import dataclass, replace

from gpusmith.probe.files import read_text

NVIDIA, MELLANOX = "0x10de", "0x15b3"
# NVIDIA/gpu-driver-container, ubuntu24.04/nvidia-driver, _assert_nvlink5_system(), read on 2026-11-23.
SWITCH_MANAGEMENT = b"SW_MNG"
VPD_BYTES = 4096
# Offsets in the configuration space, whose first 256 bytes every device has (PCI Local Bus Specification 3.0, chapter 6).
STATUS, HAS_CAPABILITIES, CAPABILITIES, VENDOR_SPECIFIC, CONFIG_BYTES = 0x06, 0x10, 0x34, 0x09, 256
# What NVIDIA's GPU feature discovery tells virtual GPUs by (NVIDIA/k8s-device-plugin v0.19.0, internal/vgpu/vgpu.go).
VGPU = b"VF"


@dataclass(frozen=True)
class PciDevice:
    """A device of NVIDIA's.

    Attributes:
        address: as sysfs writes it, '0000:01:00.0'.
        device_id: vendor and device, '10de:2330'.
        class_: '0x030200'.
        driver: kernel driver that is bound to it; None if none is.
        vgpu: whether it is a share in a GPU, which a hypervisor lends; None if that could not be read.
    """

    address: str
    device_id: str = ""
    class_: str = ""
    driver: str | None = None
    vgpu: bool | None = None


@dataclass(frozen=True)
class Pci:
    """What is on the bus.

    Attributes:
        gpus: display classes 0300 and 0302.
        nvswitches: bridge class 0680.
        switch_managers: network functions by which switches of NVLink 5 are managed, which are no devices of the bus.
        left_out: GPUs that the inventory leaves out, which are not among the others (node/left_out.py).
    """

    gpus: tuple[PciDevice, ...] = ()
    nvswitches: tuple[PciDevice, ...] = ()
    switch_managers: tuple[PciDevice, ...] = ()
    left_out: tuple[PciDevice, ...] = ()


def normal_pci(address: str) -> str:
    """A PCI address as sysfs writes it, from NVML's (8-digit domain) or the kernel log's (no function)."""
    parts = address.strip().lower().split(":")
    if len(parts) != 3:
        return address
    return "{}:{}:{}".format(
        parts[0][-4:].rjust(4, "0"),
        parts[1],
        parts[2] if "." in parts[2] else parts[2] + ".0",
    )


def manages_switches(folder: str) -> bool:
    """Whether a network card's vital product data say that it manages NVLink switches, by which the fabric manager goes, too."""
    try:
        with open(folder + "/vpd", "rb") as file:
            return SWITCH_MANAGEMENT in file.read(VPD_BYTES)
    except OSError:
        return False


def is_vgpu(config: bytes) -> bool | None:
    """Whether a configuration space has NVIDIA's mark of a virtual GPU, which has its board's ID; None if it is cut off."""
    if len(config) < CONFIG_BYTES:
        return None
    place = config[CAPABILITIES] if config[STATUS] & HAS_CAPABILITIES else 0
    for _ in range(CONFIG_BYTES // 4):
        # Before the first capability ends the header; behind the last byte nothing is.
        if not CAPABILITIES <= place < CONFIG_BYTES - len(VGPU) - 3:
            break
        if config[place] == VENDOR_SPECIFIC:
            return config[place + 3 : place + 3 + len(VGPU)] == VGPU
        place = config[place + 1]
    return False


def _config(folder: str) -> bytes:
    try:
        with open(folder + "/config", "rb") as file:
            return file.read(CONFIG_BYTES)
    except OSError:
        return b""


def _device(folder: str, vendor: str) -> PciDevice:
    driver = folder + "/driver"
    return PciDevice(
        address=os.path.basename(folder),
        device_id=vendor.replace("0x", "") + ":" + (read_text(folder + "/device") or "").replace("0x", ""),
        class_=read_text(folder + "/class") or "",
        driver=os.path.basename(os.path.realpath(driver)) if os.path.exists(driver) else None,
    )


def gather(root: str = "/sys/bus/pci/devices") -> Pci:
    """NVIDIA's devices by sysfs, which shows also those without a driver."""
    gpus, switches, cards = [], [], []
    for folder in sorted(glob.glob(root + "/*")):
        vendor = read_text(folder + "/vendor")
        if vendor not in (NVIDIA, MELLANOX):
            continue
        row = _device(folder, vendor)
        if vendor == MELLANOX:
            cards += [row] if row.class_.startswith("0x02") else []
        # Display controllers, VGA (0300) and 3D (0302); an NVSwitch is a bridge of class 0680.
        elif row.class_.startswith(("0x0300", "0x0302")):
            gpus.append(replace(row, vgpu=is_vgpu(_config(folder))))
        elif row.class_.startswith("0x0680"):
            switches.append(row)
    # Cards are slow to tell.
    asked = cards if gpus and not switches else []
    managers = [card for card in asked if manages_switches(f"{root}/{card.address}")]
    return Pci(gpus=tuple(gpus), nvswitches=tuple(switches), switch_managers=tuple(managers))
