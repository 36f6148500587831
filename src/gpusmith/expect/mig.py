"""MIG: inventories name whole GPUs, and a GPU in MIG mode runs nothing without instances, and less with them."""

from __future__ import annotations

from gpusmith.probe.record import Record
from gpusmith.problems import Problem


def problems(record: Record, node: str) -> list[Problem]:
    """GPUs that are in MIG mode, will be, or do not say."""
    unread = [
        Problem(
            f"Node '{node}': whether {gpu.label} is in MIG mode cannot be read, NVML says: {gpu.unreadable['mig_mode']}.",
            f"Run 'nvidia-smi -q -i {gpu.index}' on '{node}'.",
            {"gpu": gpu.index, "uuid": gpu.uuid, "mig": gpu.mig_mode, "mig_pending": gpu.mig_mode_pending},
        )
        for gpu in record.nvml.gpus
        if not gpu.error and "mig_mode" in gpu.unreadable
    ]
    return [*unread, *divided(record, node)]


def divided(record: Record, node: str) -> list[Problem]:
    """GPUs that are in MIG mode, or will be."""
    found = []
    for gpu in record.nvml.gpus:
        if gpu.error or "enabled" not in (gpu.mig_mode, gpu.mig_mode_pending):
            continue
        state = "is in MIG mode" if gpu.mig_mode == "enabled" else "will be in MIG mode after its next reset"
        found.append(
            Problem(
                f"Node '{node}': {gpu.label} {state}, the inventory counts whole GPUs.",
                f"Drain '{node}' and run 'nvidia-smi -i {gpu.index} -mig 0', then reset the GPU.",
                {
                    "gpu": gpu.index,
                    "uuid": gpu.uuid,
                    "mig": gpu.mig_mode,
                    "mig_pending": gpu.mig_mode_pending,
                },
            )
        )
    return found
