"""NVIDIA's devices on the PCI bus."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PciDevice:
    """A device of NVIDIA's.

    Attributes:
        address: as sysfs writes it, '0000:01:00.0'.
        device_id: vendor and device, '10de:2330'.
        driver: kernel driver that is bound to it; None if none is.
    """

    address: str
    device_id: str = ""
    driver: str | None = None


@dataclass(frozen=True)
class Pci:
    """GPUs (display classes 0300 and 0302) and NVSwitches (bridge class 0680)."""

    gpus: tuple[PciDevice, ...] = ()
    nvswitches: tuple[PciDevice, ...] = ()
