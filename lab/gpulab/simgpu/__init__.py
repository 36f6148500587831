"""Simulated GPU hardware of the lab, its driver packages and the part of it that lives in the node image.

It sits below the packages: a node has PCI devices and a kernel side that are simulated, everything above is
installed from repositories as on a real machine.
"""

from __future__ import annotations

from pathlib import Path

from gpusmith.paths import repo_root


def source_dir() -> Path:
    """Folder with the C sources, package tables and the node overlay."""
    return repo_root() / "lab" / "simgpu"


def rootfs() -> Path:
    """Overlay that is copied over the root of the node image.

    After the copy, ``image_hook()`` has to run once inside the image (chroot, as root).
    """
    return source_dir() / "rootfs"


def image_hook() -> Path:
    """Executable shell script for the image's chroot; needs the overlay in place and no network."""
    return source_dir() / "image-hook.sh"
