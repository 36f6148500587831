"""The fault 'throttle'."""

from __future__ import annotations

from simgpu.driver import COOL_C
from simgpu.fault import Fault, Target

HOT_C = "91"
REASONS = str(0x08 | 0x40)  # HW slowdown, HW thermal slowdown


class Throttle(Fault):
    """A GPU is too hot."""

    name = "throttle"
    help = "the GPU slows down because it is too hot"
    on_gpu = True
    blinds_monitors = False

    def inject(self, at: Target) -> None:
        """It is hot, and slower."""
        self.show(at)

    def heal(self, at: Target) -> None:
        """It is cool again."""
        if at.live:
            at.live.update(throttle="0", temp=COOL_C)

    def show(self, at: Target) -> None:
        """A new load of the driver does not cool it."""
        if at.live:
            at.live.update(throttle=REASONS, temp=HOT_C)
