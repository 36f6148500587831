"""Installed packages that matter to GPUs, containers and Kubernetes."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass

from gpusmith.probe.commands import Command
from gpusmith.probe.files import read_text

# Names, and names of sources: libnvoptix1 is built from nvidia-graphics-drivers.
PATTERNS = (
    "*nvidia*", "libcuda*", "libnvcuvid*", "libnvoptix*", "libnvsdm*", "libxnvctrl*", "cuda-*",
    "containerd*", "runc", "cri-*", "kube*", "docker*", "podman", "containernetworking-plugins",
    "linux-image-*", "linux-headers-*",
)  # fmt: skip
# Kernels come in many packages besides these, from one source.
OF_ANY_SOURCE = ("linux*",)


@dataclass(frozen=True)
class Package:
    """An installed package.

    Attributes:
        version: full, with epoch and revision.
        held: whether upgrades leave it alone.
        source: name of the source package; None if it is the package's own.
    """

    version: str
    held: bool
    source: str | None = None


def matters(name: str, source: str) -> bool:
    """Whether a package has to do with GPUs, containers or Kubernetes."""
    if _alike(name, PATTERNS):
        return True
    return not _alike(source, OF_ANY_SOURCE) and _alike(source, PATTERNS)


def _alike(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def parse_dpkg(text: str) -> dict[str, Package]:
    """Installed packages that matter, of ``dpkg-query`` with package, version, abbreviated status and source, divided by tabs."""
    found = {}
    for line in text.splitlines():
        fields = line.split("\t")
        # Second letter 'i': all its files are there. First letter 'h': held.
        if len(fields) == 4 and fields[2][1:2] == "i" and matters(fields[0], fields[3]):
            source = fields[3] if fields[3] != fields[0] else None
            found[fields[0]] = Package(version=fields[1], held=fields[2].startswith("h"), source=source)
    return found


def parse_rpm(text: str, locked: str) -> dict[str, Package]:
    """Installed packages that matter, of ``rpm -qa``, with the names that dnf's versionlock list mentions."""
    found = {}
    for line in text.splitlines():
        name, separator, version = line.partition("\t")
        if separator and matters(name, ""):
            held = re.search(rf"^(\d+:)?{re.escape(name)}-\d", locked, re.MULTILINE) is not None
            found[name] = Package(version=version, held=held)
    return found


def ask() -> tuple[Command, Command]:
    """Start dpkg's query, and rpm's where there is no dpkg."""
    dpkg = Command(
        "dpkg-query", "-W", "-f", "${Package}\t${Version}\t${db:Status-Abbrev}\t${source:Package}\n"
    )
    if not dpkg.missing:
        return dpkg, dpkg
    return dpkg, Command("rpm", "-qa", "--qf", "%{NAME}\t%{VERSION}-%{RELEASE}\n")


def gather(asked: tuple[Command, Command], errors: list[str]) -> dict[str, Package]:
    """Installed packages by name."""
    dpkg, rpm = asked
    if not dpkg.missing:
        return parse_dpkg(dpkg.output(errors) or "")
    return parse_rpm(rpm.output(errors) or "", read_text("/etc/dnf/plugins/versionlock.list") or "")
