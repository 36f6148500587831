"""What else rules a machine: mandatory access control, ufw, who restarts services or takes network interfaces by itself."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import glob
import os
import re
from dataclasses import dataclass

from gpusmith.probe.files import read_text

UFW = "/etc/ufw/ufw.conf"
NEEDRESTART = "/etc/needrestart"
DRACUT = "/usr/bin/dracut"
NETWORK_MANAGER = ("/etc/NetworkManager/NetworkManager.conf", "/etc/NetworkManager/conf.d/*.conf")


@dataclass(frozen=True)
class Surroundings:
    """What else rules the machine. Whether firewalld runs, services tell.

    Attributes:
        selinux: 'enforcing', 'permissive' or 'disabled'; None if it cannot be read.
        apparmor: whether the kernel has it on.
        ufw: whether that firewall is on at boot.
        interfaces_kept: whether NetworkManager's configuration keeps it from interfaces.
        needrestart: whether that program is installed, which restarts services after upgrades.
        dracut: whether that program is installed, which makes initial RAM disks.
    """

    selinux: str | None = None
    apparmor: bool | None = None
    ufw: bool = False
    interfaces_kept: bool = False
    needrestart: bool = False
    dracut: bool = False


def selinux(root: str = "/sys/fs/selinux") -> str | None:
    """By the kernel; where it has no such folder, nothing enforces anything."""
    if not os.path.isdir(root):
        return "disabled"
    said = read_text(os.path.join(root, "enforce"))
    return None if said is None else ("enforcing" if said == "1" else "permissive")


def apparmor(text: str | None) -> bool:
    """By the text of the kernel's parameter 'enabled'."""
    return text == "Y"


def ufw_enabled(text: str) -> bool:
    """By the text of its configuration."""
    return re.search(r"(?m)^\s*ENABLED\s*=\s*\"?yes\"?\s*$", text) is not None


def _texts(*patterns: str) -> list[str]:
    return [read_text(path) or "" for pattern in patterns for path in sorted(glob.glob(pattern))]


def gather() -> Surroundings:
    """What rules this machine."""
    kept = any(re.search(r"(?m)^\s*unmanaged-devices\s*\+?=", text) for text in _texts(*NETWORK_MANAGER))
    return Surroundings(
        selinux=selinux(),
        apparmor=apparmor(read_text("/sys/module/apparmor/parameters/enabled")),
        ufw=ufw_enabled(read_text(UFW) or ""),
        interfaces_kept=kept,
        needrestart=os.path.isdir(NEEDRESTART),
        dracut=os.path.exists(DRACUT),
    )
