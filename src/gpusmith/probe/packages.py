"""Installed packages that matter to GPUs, containers and Kubernetes."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import fnmatch
import glob
import re
from dataclasses import dataclass
from typing import Iterator

from gpusmith.probe.commands import Command

# Names, and names of sources: libnvoptix1 is built from nvidia-graphics-drivers.
PATTERNS = (
    "*nvidia*", "libcuda*", "libnvcuvid*", "libnvoptix*", "libnvsdm*", "libxnvctrl*", "cuda-*", "glx-*", "update-glx",
    "nvlsm", "infiniband-diags", "containerd*", "runc", "cri-*", "kube*", "docker*", "podman", "containernetworking-plugins",
    "linux-image-*", "linux-headers-*", "kernel", "kernel-core", "kernel-devel*", "kernel-headers",
    "dkms", "dnf-plugins-core", "python3-dnf-plugin-versionlock",
)  # fmt: skip
# Kernels come in many packages besides these, from one source.
OF_ANY_SOURCE = ("linux*", "kernel*")
# What rpm keeps in several versions at once; two of anything else are what a killed run has left.
SIDE_BY_SIDE = ("kernel*",)
FOREIGN = ("i386", "i486", "i586", "i686", "armhf", "armel")
# What dpkg is asked for.
DPKG = "${Package}\t${Version}\t${db:Status-Abbrev}\t${source:Package}\t${Architecture}\n"

# The list of dnf's plugin versionlock. Lines of ours end with a pattern for the architecture that only we write; those below
# a comment with an owner's name are its pins, and no holds.
LOCKS = "/etc/dnf/plugins/versionlock.list"
# Without its plugin, or with that switched off, dnf does not read it.
PLUGIN = "/usr/lib/python3*/*-packages/dnf-plugins/versionlock.py"
SWITCHES = (("/etc/dnf/dnf.conf", "plugins"), ("/etc/dnf/plugins/versionlock.conf", "enabled"))
OURS = ".?*"
HEAD = "# Written by gpusmith for "
HELD = HEAD + "what is held."
# A version begins with a digit or a pattern.
LOCK = re.compile(r"(?P<name>[^!#\s]\S*?)-(?P<version>(?:[\d*?]+:)?[\d*?][^-]*(?:-[^-]+)?)$")


# Second letter of dpkg's abbreviated status (dpkg-query(1)).
GONE = ("n", "c")
HALF = {"H": "half installed", "U": "unpacked", "F": "half configured"}


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
    """Installed packages that matter, of lines of `DPKG`. Ubuntu has some of them for i386 as well, by the same names."""
    found = {}
    for name, version, status, source, arch in _rows(text):
        # Second letter 'i': all its files are there. First letter 'h': held.
        if status[1:2] == "i" and arch not in FOREIGN and matters(name, source):
            found[name] = Package(version, status.startswith("h"), source if source != name else None)
    return found


def _rows(text: str) -> list[list[str]]:
    return [fields for line in text.splitlines() if len(fields := line.split("\t")) == 5]


def parse_foreign(text: str) -> list[str]:
    """Packages that matter of another architecture than the machine's, as 'libcuda1:i386', of the same lines."""
    return sorted(
        f"{name}:{arch}"
        for name, _version, status, source, arch in _rows(text)
        if arch in FOREIGN and status[1:2] not in GONE and matters(name, source)
    )


def parse_halves(text: str) -> dict[str, str]:
    """State by name of packages that matter and are neither installed nor gone, of the same lines."""
    return {
        f"{name}:{arch}" if arch in FOREIGN else name: HALF[status[1:2]]
        for name, _version, status, source, arch in _rows(text)
        if status[1:2] in HALF and matters(name, source)
    }


def locked(text: str) -> list[tuple[str, str]]:
    """Patterns of names and of versions that the list of dnf's plugin versionlock holds packages at."""
    found = []
    pins = False
    for line in text.splitlines():
        match = LOCK.match(line.strip())
        ours = line.strip().endswith(OURS)
        if not ours:
            pins = line.startswith(HEAD) and line != HELD
        if match is not None and not (ours and pins):
            found.append((match["name"], match["version"]))
    return found


def is_held(name: str, version: str, arch: str, locks: list[tuple[str, str]]) -> bool:
    """Whether the lines that speak of a package allow this version and no other."""
    epoch, colon, plain = version.rpartition(":")
    forms = [f"{epoch if colon else 0}:{plain}", plain]
    forms += [form.rpartition("-")[0] for form in forms] + [f"{form}.{arch}" for form in forms]
    speaking = [pattern for names, pattern in locks if fnmatch.fnmatchcase(name, names)]
    return bool(speaking) and all(
        any(fnmatch.fnmatchcase(form, pattern) for form in forms) for pattern in speaking
    )


def parse_rpm(text: str, locks: str) -> dict[str, Package]:
    """Installed packages that matter, of ``rpm -qa`` with name, version, architecture and source, divided by tabs.

    Args:
        text: the lines.
        locks: text of the list of dnf's plugin versionlock.
    """
    lines, twice = locked(locks), parse_twice(text)
    return {
        name: Package(version, is_held(name, version, arch, lines), source if source != name else None)
        for name, version, arch, source in _rpm_rows(text)
        if name not in twice
    }


def parse_twice(text: str) -> dict[str, str]:
    """State by name of packages that matter and are there in several versions, of the same lines.

    A transaction of dnf puts what is new beside what is old, which goes at its end: killed, it leaves both (dnf 4.14, tried on
    2026-11-25; 'dnf check --duplicates' says the same).
    """
    seen: dict[tuple[str, str], set[str]] = {}
    for name, version, arch, _source in _rpm_rows(text):
        seen.setdefault((name, arch), set()).add(version)
    return {
        name: "there in versions " + " and ".join(f"'{version}'" for version in sorted(versions))
        for (name, _arch), versions in seen.items()
        if len(versions) > 1 and not _alike(name, SIDE_BY_SIDE)
    }


def _rpm_rows(text: str) -> Iterator[tuple[str, str, str, str]]:
    """Name, version, architecture and source of packages that matter."""
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) != 4 or fields[2] in FOREIGN:
            continue
        name, version, arch, file = fields
        source = file.rsplit("-", 2)[0] if file.count("-") > 1 else name
        if matters(name, source):
            yield name, re.sub(r"^0:", "", version), arch, source


def ask() -> tuple[Command, Command]:
    """Start dpkg's query, and rpm's where there is no dpkg."""
    dpkg = Command("dpkg-query", "-W", "-f", DPKG)
    if not dpkg.missing:
        return dpkg, dpkg
    version = "%|EPOCH?{%{EPOCH}:}:{}|%{VERSION}-%{RELEASE}"
    return dpkg, Command("rpm", "-qa", "--qf", f"%{{NAME}}\t{version}\t%{{ARCH}}\t%{{SOURCERPM}}\n")


def database(asked: tuple[Command, Command]) -> str:
    """Which database answers: 'dpkg' or 'rpm', or nothing where there is neither."""
    dpkg, rpm = asked
    if not dpkg.missing:
        return "dpkg"
    return "" if rpm.missing else "rpm"


def _is_off(path: str, option: str) -> bool:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return re.search(rf"(?mi)^\s*{option}\s*=\s*(?:0|no|false|off)\s*$", file.read()) is not None
    except OSError:
        return False


def locks() -> str | None:
    """Text of the list of dnf's plugin versionlock; None where there is none, or dnf does not read it."""
    if not glob.glob(PLUGIN) or any(_is_off(path, option) for path, option in SWITCHES):
        return None
    try:
        with open(LOCKS, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None


def gather(asked: tuple[Command, Command], errors: list[str]) -> dict[str, Package]:
    """Installed packages by name."""
    dpkg, rpm = asked
    if not dpkg.missing:
        return parse_dpkg(dpkg.output(errors) or "")
    return parse_rpm(rpm.output(errors) or "", locks() or "")


def halves(asked: tuple[Command, Command], errors: list[str]) -> dict[str, str]:
    """State by name of packages that a run left which was broken off; `gather` leaves them out."""
    dpkg, rpm = asked
    if not dpkg.missing:
        return parse_halves(dpkg.output(errors) or "")
    return parse_twice(rpm.output(errors) or "")


def of_foreign_architectures(asked: tuple[Command, Command], errors: list[str]) -> list[str]:
    """Installed packages of another architecture than the machine's. Dnf has all architectures of a package under one name."""
    dpkg, _rpm = asked
    return [] if dpkg.missing else parse_foreign(dpkg.output(errors) or "")
