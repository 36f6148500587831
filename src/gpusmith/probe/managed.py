"""Files that roles write."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import glob
import hashlib

from gpusmith.probe.boot import MODULE_FILES, SYSCTL_FILES

# Files that roles write carry our name, so that a role can compare what is there with what it would write.
MANAGED_FILES = (
    "/etc/apt/sources.list.d/gpusmith-*",
    "/etc/apt/preferences.d/gpusmith-*",
    "/etc/apt/apt.conf.d/*gpusmith-*",
    "/etc/containerd/conf.d/*gpusmith*",
    # Of every registry: the file's name is containerd's.
    "/etc/containerd/certs.d/*/hosts.toml",
    "/etc/kubernetes/kubelet.conf.d/gpusmith-*",
    "/etc/modprobe.d/gpusmith-*",
    # The one file without our name: its program reads no other.
    "/etc/nvidia-container-runtime/config.toml",
    MODULE_FILES,
    SYSCTL_FILES,
    "/etc/systemd/system/gpusmith-*.service",
    "/etc/systemd/system/*.service.d/*gpusmith-*",
)


def gather() -> dict[str, str]:
    """SHA-256 digests by path."""
    found = {}
    for pattern in MANAGED_FILES:
        for path in glob.glob(pattern):
            try:
                with open(path, "rb") as file:
                    found[path] = hashlib.sha256(file.read()).hexdigest()
            except OSError:
                continue
    return found
