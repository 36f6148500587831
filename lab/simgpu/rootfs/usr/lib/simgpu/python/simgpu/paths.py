"""Where the simulated kernel keeps and shows things; used as ``paths.NAME``, so that tests can move them."""

from __future__ import annotations

from pathlib import Path

RUN = Path("/run/simgpu")
LIVE = RUN / "live"
HARDWARE = Path("/var/lib/simgpu/hardware.json")
FAULTS = Path("/var/lib/simgpu/faults.json")
INFOROM = Path("/var/lib/simgpu/inforom.json")
"""GPUs that keep their MIG mode on."""
DELAYS = Path("/var/lib/simgpu/delays.json")
SAVED = Path("/var/lib/simgpu/saved")
"""Files that a fault replaced."""
DEV = Path("/dev")
PCI = Path("/sys/bus/pci")
MODULES = Path("/sys/module")
PROC = Path("/proc/driver")
PROCESSES = Path("/proc")
CONTAINERD = Path("/etc/containerd/config.toml")
SIMGPU = Path("/usr/lib/simgpu/simgpu")
"""The program of the simulated kernel."""
