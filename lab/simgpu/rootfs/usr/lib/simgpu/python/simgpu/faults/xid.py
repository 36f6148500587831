"""The fault 'xid'."""

from __future__ import annotations

from simgpu.fault import Code, Fault, Target, driven_gpu


class Xid(Fault):
    """The driver reports an error of a GPU."""

    name = "xid"
    help = "one Xid error with a given code"
    on_gpu = True
    code = Code(allowed=range(1, 1000), example=79)
    needs = (driven_gpu,)
    repeatable = True
    cured_by_reboot = True

    def inject(self, at: Target) -> None:
        """One line in the kernel log, and an event."""
        at.report(at.row["code"], "pid='<unknown>', name=<unknown>, injected by the lab")

    def heal(self, at: Target) -> None:
        """Forget it."""
        if at.live:
            at.state.forget_xids(at.live)
