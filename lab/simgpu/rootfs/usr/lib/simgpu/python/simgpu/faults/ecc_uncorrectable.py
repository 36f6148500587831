"""The fault 'ecc-uncorrectable'."""

from __future__ import annotations

from simgpu.fault import Fault, Target, driven_gpu


class EccUncorrectable(Fault):
    """Memory of a GPU fails."""

    name = "ecc-uncorrectable"
    help = "an uncorrectable memory error (Xid 48 and 63) with a pending row remap"
    on_gpu = True
    needs = (driven_gpu,)
    repeatable = True

    def inject(self, at: Target) -> None:
        """One error more, whose row waits for its remap."""
        live = at.driven
        live["ecc"] = str(int(live["ecc"]) + 1)
        live["ecc_total"] = str(int(live["ecc_total"]) + 1)
        live["pending"] = "1"
        at.report(
            48,
            "pid='<unknown>', name=<unknown>, "
            "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer",
        )
        at.report(63, "Row Remapper: New row marked for remapping, reset gpu to activate.")

    def heal(self, at: Target) -> None:
        """Another GPU in its place."""
        if at.live:
            at.live.update(ecc="0", ecc_total="0", remapped="0", pending="0")
            at.state.forget_xids(at.live)

    def show(self, at: Target) -> None:
        """Pending row remaps are done when the driver initialises the GPU."""
        if at.live:
            at.row["remapped"] = True
            for key in ("ecc_total", "remapped"):
                at.live[key] = str(int(at.live[key]) + 1)
