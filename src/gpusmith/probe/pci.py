"""NVIDIA's devices on the PCI bus."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import glob
import os
from dataclasses import dataclass

from gpusmith.probe.files import read_text


@dataclass(frozen=True)
class PciDevice:
    """A device of NVIDIA's.

    Attributes:
        address: as sysfs writes it, '0000:01:00.0'.
        device_id: vendor and device, '10de:2330'.
        class_: '0x030200'.
        driver: kernel driver that is bound to it; None if none is.
    """

    address: str
    device_id: str = ""
    class_: str = ""
    driver: str | None = None


@dataclass(frozen=True)
class Pci:
    """GPUs (display classes 0300 and 0302) and NVSwitches (bridge class 0680)."""

    gpus: tuple[PciDevice, ...] = ()
    nvswitches: tuple[PciDevice, ...] = ()


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


def gather() -> Pci:
    """NVIDIA's devices by sysfs, which shows also those without a driver."""
    gpus, switches = [], []
    for folder in sorted(glob.glob("/sys/bus/pci/devices/*")):
        vendor = read_text(folder + "/vendor")
        if vendor != "0x10de":
            continue
        device = read_text(folder + "/device") or ""
        pci_class = read_text(folder + "/class") or ""
        driver = folder + "/driver"
        row = PciDevice(
            address=os.path.basename(folder),
            device_id="10de:" + device.replace("0x", ""),
            class_=pci_class,
            driver=os.path.basename(os.path.realpath(driver)) if os.path.exists(driver) else None,
        )
        # Display controllers, VGA (0300) and 3D (0302); an NVSwitch is a bridge of class 0680.
        if pci_class.startswith(("0x0300", "0x0302")):
            gpus.append(row)
        elif pci_class.startswith("0x0680"):
            switches.append(row)
    return Pci(gpus=tuple(gpus), nvswitches=tuple(switches))
