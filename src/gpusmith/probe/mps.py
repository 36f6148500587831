"""What of MPS is on this machine: its control daemons, and where that of a layout has its sockets."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import os
from dataclasses import dataclass

from gpusmith.probe.files import read_text

ROOT = "/run/nvidia/mps"
"""Where the device plugin's daemon has them; roles/gpu_operands/vars/main.yml says so to its pods."""
CONTROL = "nvidia-cuda-mps-control"


@dataclass(frozen=True)
class Mps:
    """What runs, and what is there.

    Attributes:
        controls: PIDs of control daemons, whoever runs them.
        left: whether the folder of the device plugin's daemon is there, which outlives it.
    """

    controls: tuple[int, ...] = ()
    left: bool = False


def gather(proc: str = "/proc", root: str = ROOT) -> Mps:
    """By the names of all processes; the server of MPS is called as its daemon is, as far as the kernel keeps names."""
    found = []
    for pid in sorted(int(name) for name in os.listdir(proc) if name.isdigit()):
        if read_text(f"{proc}/{pid}/comm") == CONTROL[:15]:
            program = (read_text(f"{proc}/{pid}/cmdline") or "").partition("\0")[0]
            if os.path.basename(program) == CONTROL:
                found.append(pid)
    return Mps(tuple(found), os.path.isdir(root))
