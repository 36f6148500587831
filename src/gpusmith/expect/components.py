"""Parts of the driver that not every machine needs: those that the inventory names, and those that its board needs by itself.

DCGM sees NVSwitches up to those of Hopper by NSCQ, and those of NVLink 5 by NVSDM, of which there are packages for x86_64 alone
(NVIDIA/gpu-driver-container, which installs the one or the other with the fabric manager: ubuntu22.04/precompiled/nvidia-driver,
ubuntu24.04/install.sh; docs.nvidia.com/datacenter/tesla/nvsdm; read 2026-11-25). No known model shares memory between machines.
"""

from __future__ import annotations

import re
from dataclasses import replace

from gpusmith.expect import fabric, packages
from gpusmith.expect.layouts import BRANCH_IN_NAME
from gpusmith.expect.wanted import Driver
from gpusmith.probe.record import Record

AUTO = "auto"
"""Stands for what the board needs."""
NSCQ, NVSDM = "nscq", "nvsdm"
PACKAGE = re.compile(r"(libnvidia-nscq|libnvsdm)(-\d+)?")
"""Its name carries the branch in NVIDIA's repository up to 575."""
WITH_NVSDM = ("x86_64", None)
"""Architectures, and one that nobody could tell."""


def of_board(record: Record, wanted: Driver) -> tuple[str, ...]:
    """What monitoring needs to see the switches of a machine, as far as there are packages of it."""
    if not fabric.needed(record, wanted):
        return ()
    name = NVSDM if fabric.by_subnet(record, wanted) else NSCQ
    if name == NVSDM and record.host.architecture not in WITH_NVSDM:
        return ()
    return (name,) if name in wanted.layout.components else ()


def _is_there(record: Record, wanted: Driver, name: str) -> bool:
    """Whether a part is installed, for whichever branch."""
    plain = BRANCH_IN_NAME.sub("", wanted.layout.components[name])
    return any(BRANCH_IN_NAME.sub("", package) == plain for package in record.packages)


def _serves(record: Record, wanted: Driver) -> bool:
    """Whether the node serves with a driver, which keeps what it consists of: a way back has no more than that."""
    return record.kubernetes.joined and bool(packages.of_driver(record, wanted))


def resolved(record: Record, wanted: Driver) -> Driver:
    """The driver with the names of parts that are meant on this machine."""
    if AUTO not in wanted.components:
        return wanted
    named = tuple(name for name in wanted.components if name != AUTO)
    found = [
        name
        for name in of_board(record, wanted)
        if name not in named and (not _serves(record, wanted) or _is_there(record, wanted, name))
    ]
    return replace(wanted, components=(*named, *found))


def unseen(record: Record, wanted: Driver) -> list[str]:
    """What to tell of a node that serves without a part that its board needs.

    Args:
        record: of the node.
        wanted: the driver as it is asked for.
    """
    if AUTO not in wanted.components or not _serves(record, wanted):
        return []
    return [
        f"DCGM does not see its NVSwitches without '{wanted.layout.components[name]}'. A node that serves gets that only if"
        f" 'nvidia_driver_components' names '{name}'."
        for name in of_board(record, wanted)
        if name not in wanted.components and not _is_there(record, wanted, name)
    ]
