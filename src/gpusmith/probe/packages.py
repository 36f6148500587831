"""Installed packages that matter to GPUs, containers and Kubernetes."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import re
from dataclasses import dataclass

from gpusmith.probe.commands import Command
from gpusmith.probe.files import read_text

PACKAGE_PATTERNS = (
    "nvidia*", "libnvidia*", "libcuda*", "libxnvctrl*", "cuda-*", "firmware-nvidia*", "containerd*", "kube*",
)  # fmt: skip


@dataclass(frozen=True)
class Package:
    """An installed package."""

    version: str
    held: bool


def parse_dpkg(text: str) -> dict[str, Package]:
    """Installed packages of ``dpkg-query`` with package, version and abbreviated status, divided by tabs."""
    found = {}
    for line in text.splitlines():
        fields = line.split("\t")
        # Second letter 'i': all its files are there. First letter 'h': held.
        if len(fields) == 3 and fields[2][1:2] == "i":
            found[fields[0]] = Package(version=fields[1], held=fields[2].startswith("h"))
    return found


def parse_rpm(text: str, locked: str) -> dict[str, Package]:
    """Installed packages of ``rpm -qa`` with the names that dnf's versionlock list mentions."""
    found = {}
    for line in text.splitlines():
        name, separator, version = line.partition("\t")
        if separator:
            held = re.search(rf"^(\d+:)?{re.escape(name)}-\d", locked, re.MULTILINE) is not None
            found[name] = Package(version=version, held=held)
    return found


def ask() -> tuple[Command, Command]:
    """Start dpkg's query, and rpm's where there is no dpkg."""
    dpkg = Command(
        "dpkg-query", "-W", "-f", "${Package}\t${Version}\t${db:Status-Abbrev}\n", *PACKAGE_PATTERNS
    )
    if not dpkg.missing:
        return dpkg, dpkg
    return dpkg, Command("rpm", "-qa", "--qf", "%{NAME}\t%{VERSION}-%{RELEASE}\n", *PACKAGE_PATTERNS)


def gather(asked: tuple[Command, Command], errors: list[str]) -> dict[str, Package]:
    """Installed packages by name."""
    dpkg, rpm = asked
    if not dpkg.missing:
        # Status 1 only says that one of the patterns matched nothing.
        return parse_dpkg(dpkg.output(errors, accept=(0, 1)) or "")
    return parse_rpm(rpm.output(errors) or "", read_text("/etc/dnf/plugins/versionlock.list") or "")
