"""What boots load, set and turn on, by the files that systemd reads."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class BootModule:
    """What boots do with a kernel module.

    Attributes:
        file: that has it loaded, or says that it is part of the kernel; None if there is none.
        forbidden_by: the file that keeps boots from loading it.
    """

    file: str | None
    forbidden_by: str | None


@dataclass(frozen=True)
class BootParameter:
    """What boots do with a kernel parameter.

    Attributes:
        value: that they set; None if they set none.
        files: that say so.
    """

    value: str | None
    files: tuple[str, ...]


@dataclass(frozen=True)
class Boot:
    """The next boot.

    Attributes:
        swap_units: links that start a swap unit although swap.target is masked.
    """

    modules: Mapping[str, BootModule]
    sysctl: Mapping[str, BootParameter]
    swap_units: tuple[str, ...]
