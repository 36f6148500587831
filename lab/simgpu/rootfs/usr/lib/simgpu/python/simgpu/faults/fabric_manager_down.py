"""The fault 'fabric-manager-down'."""

from __future__ import annotations

from simgpu.fault import Fault, Target, fabric_manager
from simgpu.processes import call

UNIT = "nvidia-fabricmanager.service"


class FabricManagerDown(Fault):
    """The fabric manager does not run."""

    name = "fabric-manager-down"
    help = "the fabric manager fails to start; CUDA answers 802"
    needs = (fabric_manager,)
    blinds_monitors = False

    def inject(self, at: Target) -> None:
        """No switch can be set up."""
        self.show(at)

    def after_inject(self) -> None:
        """As after a crash: the unit is seen to fail, and fails again whenever somebody starts it."""
        call("systemctl", "stop", UNIT, check=False)
        call("systemctl", "start", UNIT, check=False)

    def heal(self, at: Target) -> None:
        """The switches work again."""
        at.state.values["fabric_broken"] = "0"

    def after_heal(self) -> None:
        """Start it."""
        call("systemctl", "reset-failed", UNIT, check=False)
        call("systemctl", "start", UNIT, check=False)

    def show(self, at: Target) -> None:
        """Neither a boot nor another driver repairs a switch."""
        at.state.values["fabric_broken"] = "1"
