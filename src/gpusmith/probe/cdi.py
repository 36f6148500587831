"""CDI specifications of NVIDIA's GPUs."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class CdiNode:
    """A device node that a CDI device gives to containers.

    Attributes:
        path: in the container.
        host_path: what it is made of; None if the specification names none.
        numbers: MAJOR:MINOR if the specification gives them.
    """

    path: str
    host_path: str | None = None
    numbers: str | None = None

    @property
    def source(self) -> str:
        """Path on the host."""
        return self.host_path or self.path


@dataclass(frozen=True)
class CdiDevice:
    """A device with its GPU nodes."""

    name: str
    nodes: tuple[CdiNode, ...] = ()


@dataclass(frozen=True)
class CdiSpec:
    """A specification.

    Attributes:
        priority: of its folder; the highest one wins.
        driver_version: by the names of the libraries in it.
        problem: why it cannot be read; None if it can.
        devices: all, also those that it has twice.
    """

    path: str
    priority: int
    driver_version: str | None = None
    problem: str | None = None
    devices: tuple[CdiDevice, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all its devices, also those that it has twice."""
        return tuple(device.name for device in self.devices)

    @property
    def nodes(self) -> Mapping[str, tuple[CdiNode, ...]]:
        """GPU nodes by the device's name."""
        return {device.name: device.nodes for device in self.devices}


@dataclass(frozen=True)
class Cdi:
    """What containerd and the device plugin read.

    Attributes:
        specs: of kind nvidia.com/gpu, in the order of their folders.
        plugin_specs: the device plugin's own.
        devices: full names of all devices.
        driver_version: of the specification that wins.
    """

    specs: tuple[CdiSpec, ...] = ()
    plugin_specs: tuple[CdiSpec, ...] = ()
    devices: tuple[str, ...] = ()
    driver_version: str | None = None
