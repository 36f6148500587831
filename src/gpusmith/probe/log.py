"""What the kernel log says of GPUs and NVSwitches."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Xid:
    """An error report of the kernel module."""

    code: int
    pci: str
    message: str
    time_unix: float | None = None


@dataclass(frozen=True)
class SwitchXid:
    """An error report of an NVSwitch (SXid)."""

    code: int
    pci: str
    message: str
    fatal: bool
    time_unix: float | None = None


@dataclass(frozen=True)
class Log:
    """Where the reports come from.

    Attributes:
        source: 'kernel', or 'identifier' for a simulated driver, which has no kernel.
        begins_unix: time of the oldest message of this boot.
    """

    source: str | None = None
    begins_unix: float | None = None
