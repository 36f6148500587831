"""Files that roles write."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import glob
import hashlib
from typing import Iterator

from gpusmith.probe.boot import MODULE_FILES, SYSCTL_FILES
from gpusmith.probe.layout import PATH as GPU_LAYOUT
from gpusmith.probe.packages import LOCKS
from gpusmith.probe.taken import NOTES

# What was there before a change of a service that is not proved yet, by module serving_change.
CHANGES = "/var/lib/gpusmith/changes"

# Files that roles write carry our name, so that a role can compare what is there with what it would write.
MANAGED_FILES = (
    "/etc/apt/sources.list.d/gpusmith-*",
    "/etc/apt/preferences.d/gpusmith-*",
    "/etc/apt/apt.conf.d/*gpusmith-*",
    "/etc/yum.repos.d/gpusmith-*",
    "/etc/pki/rpm-gpg/gpusmith-*",
    # Lines of ours beside those of others.
    LOCKS,
    "/etc/containerd/conf.d/*gpusmith*",
    # Of every registry: the file's name is containerd's.
    "/etc/containerd/certs.d/*/hosts.toml",
    "/etc/kubernetes/kubelet.conf.d/gpusmith-*",
    "/etc/modprobe.d/gpusmith-*",
    "/etc/dracut.conf.d/gpusmith-*",
    "/etc/needrestart/conf.d/gpusmith-*",
    # A file without our name: its program reads no other.
    "/etc/nvidia-container-runtime/config.toml",
    # What services get in their environment.
    "/etc/default/gpusmith-*",
    MODULE_FILES,
    SYSCTL_FILES,
    "/etc/tmpfiles.d/gpusmith-*",
    "/etc/systemd/system/gpusmith-*.service",
    "/etc/systemd/system/*.service.d/*gpusmith-*",
    GPU_LAYOUT,
    "/usr/local/lib/gpusmith/*",
    f"{CHANGES}/*.json",
    f"{NOTES}/*.json",
)

# What our files begin with, in folders where others have files of the same name.
MARK = b"# Written by gpusmith"


def _contents() -> Iterator[tuple[str, bytes]]:
    for pattern in MANAGED_FILES:
        for path in glob.glob(pattern):
            try:
                with open(path, "rb") as file:
                    yield path, file.read()
            except OSError:
                continue


def gather() -> dict[str, str]:
    """SHA-256 digests by path."""
    return {path: hashlib.sha256(content).hexdigest() for path, content in _contents()}


def marked() -> tuple[str, ...]:
    """Paths of those that say that they are ours."""
    return tuple(sorted(path for path, content in _contents() if content.startswith(MARK)))
