"""The fault 'gpu-missing'."""

from __future__ import annotations

from simgpu import driver, pci
from simgpu.fault import Fault, Target


class GpuMissing(Fault):
    """A GPU is not on PCI."""

    name = "gpu-missing"
    help = "the GPU is no longer on PCI; NVML notices after a driver reload or reboot"
    on_gpu = True
    returns_devices = True

    def inject(self, at: Target) -> None:
        """Its folder goes; a loaded driver goes on."""
        pci.take_away(str(at.row["pci"]))

    def heal(self, at: Target) -> None:
        """It is plugged in again."""
        address = str(at.row["pci"])
        if not pci.is_present(address):
            pci.add_gpu(at.machine, address)
        driver.hot_plug(at.state, at.machine)

    def show(self, at: Target) -> None:
        """A boot does not find it either."""
        pci.take_away(str(at.row["pci"]))
