"""The fault 'gpu-lost'."""

from __future__ import annotations

from simgpu.fault import Fault, Target, driven_gpu
from simgpu.kernel_log import ERROR, klog


class GpuLost(Fault):
    """A GPU falls off the bus."""

    name = "gpu-lost"
    help = "the GPU falls off the bus (Xid 79); a reboot cures it"
    on_gpu = True
    needs = (driven_gpu,)
    cured_by_reboot = True

    def inject(self, at: Target) -> None:
        """The driver cannot reach it any more."""
        at.driven["lost"] = "1"
        at.report(79, "GPU has fallen off the bus.")
        klog(f"NVRM: GPU {at.driven['pci']}: GPU has fallen off the bus.", ERROR)

    def heal(self, at: Target) -> None:
        """It answers again."""
        if at.live:
            at.live["lost"] = "0"
            at.state.forget_xids(at.live)
