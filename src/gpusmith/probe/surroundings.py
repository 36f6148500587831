"""What else rules a machine: mandatory access control, firewalls, who restarts services or takes network interfaces by itself."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import glob
import os
import re
from dataclasses import dataclass

from gpusmith.probe.files import read_text

FIREWALLD_ZONES = "/etc/firewalld/zones/*.xml"
UFW = "/etc/ufw/ufw.conf"
NEEDRESTART = "/etc/needrestart"
NETWORK_MANAGER = ("/etc/NetworkManager/NetworkManager.conf", "/etc/NetworkManager/conf.d/*.conf")
PORT = re.compile(r'<port\b(?=[^>]*\bport="([0-9-]+)")(?=[^>]*\bprotocol="(\w+)")')


@dataclass(frozen=True)
class Surroundings:
    """What else rules the machine. Whether firewalld and NetworkManager run, services tell.

    Attributes:
        selinux: 'enforcing', 'permissive' or 'disabled'; None if it cannot be read.
        apparmor: whether the kernel has it on.
        ufw: whether that firewall is on at boot.
        firewalld_ports: that its zones let in for good, for example '10250/tcp'.
        interfaces_kept: whether NetworkManager's configuration keeps it from interfaces.
        needrestart: whether that program is installed, which restarts services after upgrades.
    """

    selinux: str | None = None
    apparmor: bool | None = None
    ufw: bool = False
    firewalld_ports: tuple[str, ...] = ()
    interfaces_kept: bool = False
    needrestart: bool = False


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


def zone_ports(text: str) -> list[str]:
    """Ports that a zone of firewalld lets in, by the text of its file."""
    return [f"{port}/{protocol}" for port, protocol in PORT.findall(text)]


def _texts(*patterns: str) -> list[str]:
    return [read_text(path) or "" for pattern in patterns for path in sorted(glob.glob(pattern))]


def gather() -> Surroundings:
    """What rules this machine."""
    ports = [port for text in _texts(FIREWALLD_ZONES) for port in zone_ports(text)]
    kept = any(re.search(r"(?m)^\s*unmanaged-devices\s*\+?=", text) for text in _texts(*NETWORK_MANAGER))
    return Surroundings(
        selinux=selinux(),
        apparmor=apparmor(read_text("/sys/module/apparmor/parameters/enabled")),
        ufw=ufw_enabled(read_text(UFW) or ""),
        firewalld_ports=tuple(dict.fromkeys(ports)),
        interfaces_kept=kept,
        needrestart=os.path.isdir(NEEDRESTART),
    )
