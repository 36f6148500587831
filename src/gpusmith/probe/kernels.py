"""Kernels that the machine can boot, and whether each has the driver's module."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from gpusmith.probe.commands import Command
from gpusmith.probe.files import read_text

MODULES = "/lib/modules"
# Debian's own packages call the module nvidia-current.
MODULE_FILE = re.compile(r"(?:^|/)nvidia(?:-current(?:-open)?)?\.ko(?:\.(?:xz|zst|gz))?$")


@dataclass(frozen=True)
class Kernel:
    """A folder of modules.

    Attributes:
        release: its name, as ``uname -r`` would say it.
        image: path of the kernel itself; None where only modules are left, which nothing can boot.
        module: path of the driver's module; None if there is none.
        module_version: what that file says of itself.
        headers: whether modules can be compiled for it.
    """

    release: str
    image: str | None = None
    module: str | None = None
    module_version: str | None = None
    headers: bool = False


def module_of(listing: str) -> str | None:
    """Path of the driver's module in a 'modules.dep', relative to its folder unless it begins with '/'."""
    for line in listing.splitlines():
        path, separator, _needs = line.partition(":")
        if separator and MODULE_FILE.search(path):
            return path
    return None


def _module(folder: str) -> str | None:
    path = module_of(read_text(os.path.join(folder, "modules.dep")) or "")
    if path is None:
        return None
    full = os.path.join(folder, path)
    # depmod may not have run since the file went.
    return full if os.path.isfile(full) else None


def find(root: str = "") -> list[Kernel]:
    """Kernels by release, without the versions of their modules."""
    found = []
    try:
        releases = sorted(os.listdir(root + MODULES))
    except OSError:
        return []
    for release in releases:
        folder = os.path.join(root + MODULES, release)
        if not os.path.isdir(folder):
            continue
        # Debian and Ubuntu, then EL, where the copy in /boot is made by kernel-install.
        images = (f"{root}/boot/vmlinuz-{release}", os.path.join(folder, "vmlinuz"))
        image = next((path for path in images if os.path.isfile(path)), None)
        found.append(
            Kernel(
                release, image, _module(folder), headers=os.path.exists(os.path.join(folder, "build", "."))
            )
        )
    return found


def ask() -> list[tuple[Kernel, Command | None]]:
    """Find the kernels, and start the program that knows the version of a module's file."""
    return [
        (kernel, Command("modinfo", "-F", "version", kernel.module) if kernel.module else None)
        for kernel in find()
    ]


def gather(asked: list[tuple[Kernel, Command | None]], errors: list[str]) -> tuple[Kernel, ...]:
    """All kernels."""
    return tuple(
        Kernel(
            kernel.release,
            kernel.image,
            kernel.module,
            (command.output(errors) or "").strip() or None if command else None,
            kernel.headers,
        )
        for kernel, command in asked
    )
