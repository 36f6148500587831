"""The fault 'driver-not-loaded'."""

from __future__ import annotations

import shutil

from simgpu import driver, paths
from simgpu.fault import Fault, Target
from simgpu.processes import call
from simgpu.state import State


class DriverNotLoaded(Fault):
    """The driver's module is gone."""

    name = "driver-not-loaded"
    help = "the kernel module is gone and cannot be loaded"
    load_refusal = f"The NVIDIA GPU driver for this system failed to initialize (fault {name})."

    def inject(self, at: Target) -> None:
        """The record alone refuses every load."""

    def after_inject(self) -> None:
        """The module goes, with its device nodes."""
        if "nvidia" in State.load().modules:
            call("systemctl", "stop", "nvidia-persistenced.service", check=False)
            driver.unload("nvidia", force=True)
            for node in paths.DEV.glob("nvidia*"):
                if node.is_dir():
                    shutil.rmtree(node)
                else:
                    node.unlink()

    def heal(self, at: Target) -> None:
        """Without its record the module can be loaded."""

    def after_heal(self) -> None:
        """Load it."""
        driver.reload()
