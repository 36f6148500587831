"""Device nodes of the driver, and the links that keep them in containers."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceNode:
    """What a path in /dev is.

    Attributes:
        kind: 'char' for a character device; others are faults.
        mode: its permission bits.
    """

    kind: str
    major: int | None
    minor: int | None
    mode: int
    uid: int
    gid: int


@dataclass(frozen=True)
class Dev:
    """The driver's device nodes, as they were before NVML started.

    Attributes:
        nodes: by path, those that are there; None if they could not be looked at.
        file_mode: what the driver wants, with the owner; None if it does not say.
        uvm_major: of module nvidia-uvm; None if it is not known.
        gpu_minors: N of each /dev/nvidiaN.
        char_links: names MAJOR:MINOR of links in /dev/char that lead to their device node.
    """

    nodes: Mapping[str, DeviceNode] | None = None
    file_mode: int | None = None
    file_uid: int | None = None
    file_gid: int | None = None
    uvm_major: int | None = None
    gpu_minors: tuple[int, ...] = ()
    control: bool = False
    uvm: bool = False
    uvm_tools: bool = False
    char_links: frozenset[str] = frozenset()
