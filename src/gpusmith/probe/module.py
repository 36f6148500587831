"""The kernel module of the driver."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DriverModule:
    """Module 'nvidia': the file of the running kernel, and what is loaded.

    Attributes:
        installed_version: of the module file for the running kernel; None if there is none.
        loaded_version: None if it is not loaded.
        flavour: 'open' or 'proprietary'.
        refcount: users of the loaded module.
        firmware: names of the GSP firmware files of that version; None if they could not be listed.
        loaded_unix: when it was loaded last, by the kernel log.
    """

    installed_version: str | None = None
    loaded_version: str | None = None
    flavour: str | None = None
    refcount: int | None = None
    firmware: tuple[str, ...] | None = None
    nouveau_loaded: bool = False
    loaded_unix: float | None = None
