"""Swap, kernel modules and kernel parameters as they are now."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class System:
    """The running system.

    Attributes:
        swap_areas: names of active areas; None if they cannot be read.
        swap_fstab: what /etc/fstab turns on at boot.
        swap_target_masked: None without systemd.
        modules: by name, whether it is loaded or part of the kernel.
        sysctl: values by name; None where the kernel has no such parameter.
        secure_boot: None if it cannot be read.
    """

    swap_active: bool | None = None
    swap_areas: tuple[str, ...] | None = None
    swap_fstab: tuple[str, ...] = ()
    swap_target_masked: bool | None = None
    modules: Mapping[str, bool] = field(default_factory=dict)
    sysctl: Mapping[str, str | None] = field(default_factory=dict)
    secure_boot: bool | None = None
