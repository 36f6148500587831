"""Kernels that the machine can boot, and whether each has the driver's module."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpusmith.probe.boot import MODULES as NEEDED
from gpusmith.probe.boot import part_of_kernel
from gpusmith.probe.commands import Command
from gpusmith.probe.files import read_text

MODULES = "/lib/modules"
# Debian's own packages call the module nvidia-current.
DKMS_TREE = "/var/lib/dkms"
# What DKMS and their files call modules that are compiled against the driver's sources, by the name that the kernel shows:
# dkms.conf of GDRCopy 2.6 and of nvidia-fs 2.28.4 (GPUDirect Storage), read on 2026-11-23.
DEPENDENTS = {"gdrdrv": "gdrdrv", "nvidia_fs": "nvidia-fs"}
# By which the fabric manager, and nvlsm beside it, reach the switches of NVLink 5.
FABRIC = ("mlx5_ib", "ib_umad")
MODULE_FILE = re.compile(r"(?:^|/)nvidia(?:-current(?:-open)?)?\.ko(?:\.(?:xz|zst|gz))?$")


@dataclass(frozen=True)
class Kernel:
    """A folder of modules.

    Attributes:
        release: its name, as ``uname -r`` would say it.
        image: path of the kernel itself; None where only modules are left, which nothing can boot.
        module: path of the driver's module; None if there is none.
        module_version: what that file says of itself.
        signer: who signed that file, by name; empty if nobody did, None if it is not known.
        signing_key: serial number of their certificate, in hexadecimal digits; likewise.
        headers: whether modules can be compiled for it.
        dependents: of DEPENDENTS those that DKMS knows, with whether the kernel has them from after its driver was put there.
        lacking: of NEEDED and FABRIC those that the kernel has neither as files nor as parts of itself.
    """

    release: str
    image: str | None = None
    module: str | None = None
    module_version: str | None = None
    signer: str | None = None
    signing_key: str | None = None
    headers: bool = False
    dependents: Mapping[str, bool] = field(default_factory=dict)
    lacking: tuple[str, ...] = ()


def module_of(listing: str) -> str | None:
    """Path of the driver's module in a 'modules.dep', relative to its folder unless it begins with '/'."""
    for line in listing.splitlines():
        path, separator, _needs = line.partition(":")
        if separator and MODULE_FILE.search(path):
            return path
    return None


def _existing(folder: str, path: str | None) -> str | None:
    full = os.path.join(folder, path) if path else ""
    # depmod may not have run since the file went.
    return full if os.path.isfile(full) else None


def dependent_of(listing: str, name: str) -> str | None:
    """Path of a module in a 'modules.dep', by what its file is called."""
    found = re.search(rf"(?m)^((?:[^:\n]*/)?{re.escape(name)}\.ko(?:\.(?:xz|zst|gz))?):", listing)
    return found.group(1) if found else None


def _dependents(root: str, folder: str, listing: str, module: str) -> dict[str, bool]:
    """Which of those that DKMS knows came after the driver.

    The time is that of the file's entry (ctime), which no copy sets back: packages bring modules that were built long before.
    """
    found = {}
    for name, known in DEPENDENTS.items():
        if not glob.glob(f"{root}{DKMS_TREE}/{known}/*/source"):
            continue
        path = _existing(folder, dependent_of(listing, known))
        found[name] = path is not None and os.stat(path).st_ctime_ns >= os.stat(module).st_ctime_ns
    return found


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
        listing = read_text(os.path.join(folder, "modules.dep")) or ""
        builtin = read_text(os.path.join(folder, "modules.builtin")) or ""
        module = _existing(folder, module_of(listing))
        found.append(
            Kernel(
                release,
                image,
                module,
                headers=os.path.exists(os.path.join(folder, "build", ".")),
                dependents=_dependents(root, folder, listing, module) if module else {},
                lacking=tuple(
                    name
                    for name in (*NEEDED, *FABRIC)
                    if dependent_of(listing, name) is None and not part_of_kernel(name, builtin)
                ),
            )
        )
    return found


def ask() -> list[tuple[Kernel, Command | None]]:
    """Find the kernels, and start the program that knows what a module's file says of itself."""
    return [(kernel, Command("modinfo", kernel.module) if kernel.module else None) for kernel in find()]


def told(kernel: Kernel, text: str) -> Kernel:
    """A kernel with what ``modinfo`` says of its module."""
    found = {key: value.strip() for key, value in re.findall(r"(?m)^(\w+):(.*)$", text)}
    # A program that cannot read signatures says that there is one, and leaves its fields empty.
    known = found if found.get("sig_key") or "sig_id" not in found else {}
    return replace(
        kernel,
        module_version=found.get("version") or None,
        signer=known.get("signer", "") if known else None,
        signing_key=known.get("sig_key", "").replace(":", "").lower().lstrip("0") if known else None,
    )


def gather(asked: list[tuple[Kernel, Command | None]], errors: list[str]) -> tuple[Kernel, ...]:
    """All kernels."""
    return tuple(
        told(kernel, command.output(errors) or "") if command else kernel for kernel, command in asked
    )
