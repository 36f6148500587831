"""The one door for packages: what package manager a machine has, and the backend that speaks to it.

Standard library only, Python 3.8 or newer: it runs on the node.
"""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import shutil
from typing import Callable, Optional

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.apt import Apt
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.base import (
    LOCK_TIMEOUT_S,
    Backend,
    PackageError,
)

# Program by package manager; the first one that a machine has is its manager. The backends' own stand first.
PROGRAMS = {
    "apt": "apt-get",
    "dnf": "dnf",
    "yum": "yum",
    "zypper": "zypper",
    "pacman": "pacman",
    "apk": "apk",
    "emerge": "emerge",
    "xbps": "xbps-install",
    "nix": "nix-env",
}
SUPPORTED = ("apt",)


def manager(which: Callable[[str], Optional[str]] = shutil.which) -> str:
    """Name of the machine's package manager; empty if it has none that is known here."""
    return next((name for name, program in PROGRAMS.items() if which(program)), "")


def backend(lock_timeout_s: float = LOCK_TIMEOUT_S) -> Backend:
    """The backend of this machine's package manager.

    Raises:
        PackageError: it has none that this release knows.
    """
    name = manager()
    if name == "apt":
        return Apt(lock_timeout_s=lock_timeout_s)
    raise PackageError(
        f"The package manager is '{name}', and this release manages packages by apt only. Use a system with apt."
        if name
        else "No known package manager is on this machine, and this release manages packages by apt only. Use a system with apt."
    )
