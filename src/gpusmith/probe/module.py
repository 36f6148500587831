"""The kernel module of the driver."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import glob
import os
from dataclasses import dataclass

from gpusmith.probe.commands import Command
from gpusmith.probe.files import read_text

UPGRADE_BLOCK = "/run/modprobe.d/00-gpusmith-upgrade.conf"
"""Keeps the driver from being loaded while an upgrade replaces it; a boot takes it away."""


@dataclass(frozen=True)
class DriverModule:
    """Module 'nvidia': the file of the running kernel, and what is loaded.

    Attributes:
        installed_version: of the module file for the running kernel; None if there is none.
        loaded_version: None if it is not loaded.
        flavour: 'open' or 'proprietary'.
        firmware: names of the GSP firmware files of that version; None if they could not be listed.
        loaded_unix: when it was loaded last, by the kernel log.
        parameters: with which it was loaded, by name without 'NVreg_'; None if it does not show them.
        blocked_by: file of an upgrade that keeps it from being loaded; None if there is none.
    """

    installed_version: str | None = None
    loaded_version: str | None = None
    flavour: str | None = None
    firmware: tuple[str, ...] | None = None
    nouveau_loaded: bool = False
    loaded_unix: float | None = None
    blocked_by: str | None = None
    parameters: dict[str, str] | None = None


def flavour_of_license(text: str | None) -> str | None:
    """Open or proprietary, by the licence that the module file carries."""
    if not text:
        return None
    return "open" if "GPL" in text or "MIT" in text else "proprietary"


def parse_modinfo(text: str) -> tuple[str | None, str | None]:
    """Version and licence of the first module in the output of ``modinfo``."""
    version = licence = None
    for line in text.splitlines():
        key, separator, value = line.partition(":")
        if not separator:
            continue
        if key == "version" and version is None:
            version = value.strip()
        elif key == "license" and licence is None:
            licence = value.strip()
    return version, licence


def parse_parameters(text: str | None) -> dict[str, str] | None:
    """Values by name of /proc/driver/nvidia/params; None if it could not be read."""
    if text is None:
        return None
    rows = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, colon, value in rows if colon}


def ask() -> Command:
    """Start the program that knows the module file."""
    # Debian's own packages call the module nvidia-current.
    return Command("modinfo", "nvidia", "nvidia-current", "nvidia-current-open")


def gather(modinfo: Command, errors: list[str]) -> DriverModule:
    """The module of the running kernel; when it was loaded, the kernel log tells."""
    # It ends with 1 if one of the names is unknown.
    version, licence = parse_modinfo(modinfo.output(errors, accept=None) or "")
    loaded = read_text("/sys/module/nvidia/version")
    flavour = flavour_of_license(licence)
    running = read_text("/proc/driver/nvidia/version")
    if loaded and running:
        flavour = "open" if "Open Kernel Module" in running else "proprietary"
    firmware = glob.glob(f"/lib/firmware/nvidia/{loaded or version}/gsp*")
    return DriverModule(
        installed_version=version,
        loaded_version=loaded,
        flavour=flavour,
        firmware=tuple(sorted(os.path.basename(path) for path in firmware)),
        nouveau_loaded=os.path.isdir("/sys/module/nouveau"),
        parameters=parse_parameters(read_text("/proc/driver/nvidia/params")),
        blocked_by=UPGRADE_BLOCK if os.path.exists(UPGRADE_BLOCK) else None,
    )
