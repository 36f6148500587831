"""The one door for packages: what package manager a machine has, and the backend that speaks to it.

All of this package needs nothing but the standard library and Python 3.8: it runs on the node, and in part on the controller.
"""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import json
import os
import shutil
from typing import Callable, List, Mapping, Optional, Type, Union

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.apt import Apt
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.base import (
    LOCK_TIMEOUT_S,
    Backend,
    PackageError,
)
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.dnf import Dnf

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
# By which an action plugin tells a module what the inventory says.
LOCK_ENVIRONMENT = "GPUSMITH_PACKAGE_LOCK_TIMEOUT_S"
REMOVABLE_ENVIRONMENT = "GPUSMITH_REMOVABLE_PACKAGES"
BACKENDS: Mapping[str, Union[Type[Apt], Type[Dnf]]] = {"apt": Apt, "dnf": Dnf}
SUPPORTED = tuple(BACKENDS)
# By the database of installed packages, the manager over it.
MANAGERS = {"dpkg": "apt", "rpm": "dnf"}


def manager(which: Callable[[str], Optional[str]] = shutil.which) -> str:
    """Name of the machine's package manager; empty if it has none that is known here."""
    return next((name for name, program in PROGRAMS.items() if which(program)), "")


def backend() -> Backend:
    """The backend of this machine's package manager, which waits for its lock as long as the inventory says.

    Raises:
        PackageError: it has none that this release knows.
    """
    name = manager()
    if name in BACKENDS:
        return BACKENDS[name](lock_timeout_s=float(os.environ.get(LOCK_ENVIRONMENT) or LOCK_TIMEOUT_S))
    raise PackageError(
        f"{f'The package manager is {name!r}' if name else 'No known package manager is on this machine'}, "
        f"and this release manages packages by {' and '.join(SUPPORTED)} only. Use a system with one of these."
    )


def removable() -> List[str]:
    """Names and shell patterns of packages of others that the inventory permits to go for those that come."""
    return list(json.loads(os.environ.get(REMOVABLE_ENVIRONMENT) or "[]"))
