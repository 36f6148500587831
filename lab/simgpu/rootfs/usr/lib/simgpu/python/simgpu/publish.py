"""What the kernel shows of itself, made from the live state."""

from __future__ import annotations

from simgpu import pci, procfs, sysfs
from simgpu.modules import references
from simgpu.state import State


def publish(state: State) -> None:
    """Write /proc/devices, /proc/modules, /sys/module/*, /proc/driver/nvidia* for the present state."""
    counts = {name: references(state, name) for name in state.modules}
    procfs.show_devices(state)
    procfs.show_modules(state, counts)
    sysfs.show_modules(state, counts)
    pci.show_drivers(state)
    procfs.show_driver(state)
