"""What a node is to hand out: resources, how many of each, and the GPUs behind them. Layouts make the rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpusmith.names import DEVICE_CLASS, GPU_RESOURCE

PART = re.compile(r"nvidia\.com/(mig-.+|gpu[.-].+)")
"""Resources that are parts of GPUs, or shares in one: 'gpu.shared', and names that sharing gives. 'hostdev' is no GPU."""


@dataclass(frozen=True)
class Offer:
    """A resource of a node.

    Attributes:
        resource: name of the extended resource, or of the device class.
        count: how many of it the node has.
        physical: GPUs that they are made of; resources made of the same GPUs each count them.
    """

    resource: str
    count: int
    physical: int

    def gpus(self, count: int) -> int:
        """GPUs that so many of the resource take up, at the least. A node of which nothing is known has whole ones."""
        return -(-count * self.physical // self.count) if self.count else count


Offers = Sequence[Offer]


@dataclass(frozen=True)
class Device:
    """What a pod is given.

    Attributes:
        uuid: as programs name it.
        parent: UUID of the GPU that it is a part of; empty for a whole one.
    """

    uuid: str
    parent: str = ""

    @property
    def gpu(self) -> str:
        """UUID of its GPU."""
        return self.parent or self.uuid


def devices(uuids: Iterable[str]) -> frozenset[Device]:
    """What pods of such a node are given, by the UUIDs of its GPUs."""
    return frozenset(map(Device, uuids))


def is_gpu(resource: str) -> bool:
    """Whether a resource is GPUs or parts of GPUs, whoever offers it."""
    return resource in (GPU_RESOURCE, DEVICE_CLASS) or PART.fullmatch(resource) is not None


def gpus_of(counts: Mapping[str, int], offers: Offers) -> int:
    """GPUs that a node's resources take up; several of one offer's GPUs are the same ones.

    Args:
        counts: by resource.
        offers: of the node; other resources are not counted.
    """
    return max((offer.gpus(counts.get(offer.resource, 0)) for offer in offers), default=0)


def strange(counts: Mapping[str, int], offers: Offers) -> dict[str, int]:
    """What of a node's resources is none of its offers, and there is any of."""
    known = {offer.resource for offer in offers}
    return {name: count for name, count in counts.items() if count and name not in known}
