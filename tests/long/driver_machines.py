"""Machines with Debian's own packages and kernels, on which roles are run by Ansible; nothing of a GPU is simulated.

Each is a container with systemd, of which the root file system has a kernel of Debian with its headers, DKMS and a compiler. The
kernel that runs is the host's, for which there is no module: the role builds for Debian's kernel, as where an image is baked. So
nothing is loaded here, ever.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from gpulab.artifacts import debian

from tests.e2e.harness import Ended
from tests.long.debian_machines import SYSTEM, Machine, booted
from tests.long.kernels import EXCLUDED, PACKAGES

LABEL = "io.gpusmith.test=real-driver"
COMPONENTS = ("main", "contrib", "non-free", "non-free-firmware")
# Paths and contents below /etc, paths alone of what is large; of dpkg's own, what packages divert and offer as alternatives.
LOOK = r"""set -e
dpkg-query --show --showformat='package ${Package} ${Version} ${db:Status-Abbrev}\n'
find /etc -xdev -type f ! -path /etc/ld.so.cache -exec sha256sum {} + | awk '{print "file", $2, $1}'
find /etc -xdev -type l -printf 'link %p %l\n'
find /boot /usr /var/lib -xdev \( -path /var/lib/apt -o -path /var/lib/dpkg/info -o -name __pycache__ \) -prune -o \
    ! -type d ! -path '/var/lib/dpkg/*-old' ! -name 'lock*' -printf 'file %p -\n'
dpkg-divert --list | sed 's/^/diverted /'
"""


@dataclass(frozen=True)
class DriverMachine(Machine):
    """One with a kernel of Debian, its headers and a compiler."""

    def role(self, entry: str = "install", **variables: Any) -> Ended:
        """Role nvidia_driver, by one of its entries."""
        return self.play("nvidia_driver", entry, **variables)

    def kernel(self) -> str:
        """The kernel of Debian that there are headers for."""
        return self.sh("basename $(dirname /lib/modules/*/build)")

    def modinfo(self, field: str, name: str = "nvidia-current") -> str:
        """What the module for that kernel says of itself; empty if there is none."""
        return self.ask("modinfo", "-k", self.kernel(), "-F", field, name, check=False)

    def packages(self) -> dict[str, str]:
        """Versions of the packages that are there whole."""
        rows = self.sh("dpkg-query --show --showformat='${Package} ${Version} ${db:Status-Abbrev}\n'")
        parts = [line.split() for line in rows.splitlines()]
        return {name: version for name, version, state in parts if state.endswith("i")}

    def held(self) -> set[str]:
        """Packages that upgrades leave alone."""
        return set(self.ask("apt-mark", "showhold").split())

    def purgeable(self) -> set[str]:
        """Packages that are gone but for their configuration files."""
        rows = self.sh("dpkg-query --show --showformat='${Package} ${db:Status-Abbrev}\n'").splitlines()
        return {name for name, state, *_ in (line.split() for line in rows) if state == "rc"}

    def half_done(self) -> str:
        """What dpkg says of packages that are not there whole."""
        return self.ask("dpkg", "--audit")

    def snapshot(self) -> set[str]:
        """Packages, files with their contents, and links, a line each."""
        return set(self.sh(LOOK).splitlines())


def _key() -> str:
    """Keys of Debian's archive."""
    words = ["gpg", "--no-default-keyring", "--keyring", debian.KEYRING, "--armor", "--export"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def _repository(suite: str) -> Mapping[str, Any]:
    source = debian.sources_for(suite)[0]
    return {"uris": [source.uri], "suites": [suite], "components": list(COMPONENTS), "key": _key()}


def _prepare(machine: DriverMachine) -> None:
    """The archive as a person has it in the machine's own sources; with another word on keys apt reads none of them."""
    sources = [
        f"deb {source.uri} {source.suite} {' '.join(COMPONENTS)}"
        for source in debian.sources_for(machine.suite)
    ]
    texts = {
        "/etc/apt/sources.list": "\n".join(sources) + "\n",
        "/etc/apt/apt.conf.d/90site": debian.forwarded_options(),
    }
    for path, text in texts.items():
        machine.write(path, text)
    machine.ask("apt-get", "update", "-q")
    archive = _repository(machine.suite)
    machine.variables(
        nvidia_driver_package_layout="distribution",
        nvidia_driver_repository=archive,
        containerd_package_layout="distribution",
        containerd_repository=archive,
    )


def compiling(suite: str) -> debian.Rootfs:
    """A kernel with its headers, DKMS and a compiler."""
    packages = tuple(sorted({*PACKAGES, *SYSTEM}))
    return debian.Rootfs(f"driver-{suite}", suite, "minbase", packages, EXCLUDED, unpacked=True)


def booting(suite: str, maker: str) -> debian.Rootfs:
    """Two kernels, of which one has nouveau, and the package of the program that makes their initial RAM disks."""
    kernels = ("linux-image-amd64", "linux-image-cloud-amd64")
    packages = tuple(sorted({*SYSTEM, *kernels, maker, "kmod", "python3", "zstd"}))
    parts = ("net", "media", "staging", *(f"gpu/drm/{other}" for other in ("amd", "i915", "radeon", "xe")))
    modules = [
        f"{folder}/*/kernel/drivers/{part}/*"
        for folder in ("/lib/modules", "/usr/lib/modules")
        for part in parts
    ]
    excluded = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", *modules)
    return debian.Rootfs(f"ram-disk-{suite}", suite, "minbase", packages, excluded, unpacked=True)


@contextmanager
def started(
    suite: str, root: Path, folder: Path, rootfs: debian.Rootfs | None = None
) -> Iterator[DriverMachine]:
    """A machine for a while.

    Args:
        suite: Debian's code name.
        root: of the checkout.
        folder: for inventory and logs.
        rootfs: what it has; what a build of the driver needs if none is named.
    """
    with booted("real-driver", LABEL, rootfs or compiling(suite), root, folder) as machine:
        driver = DriverMachine(*(getattr(machine, field.name) for field in fields(machine)))
        _prepare(driver)
        yield driver
