"""Who holds GPUs of a node: one rule for the suite, which leaves them alone, and for whoever empties a node."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpusmith.cluster.dra import Claims, DraDevice, Kind
from gpusmith.wanted.offers import Offers, gpus_of, is_gpu

Pod = Mapping[str, Any]

FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Holder:
    """A pod that GPUs are allocated to, or parts of some.

    Attributes:
        namespace: of the pod.
        name: of the pod.
        counts: what it holds by limits, by resource: GPUs, MIG devices, shares.
        claimed: whole GPUs that it has by claims. One that pods share is counted for the first of them.
        devices: what it holds by claims, also parts of GPUs, shared ones, and what may be a GPU.
    """

    namespace: str
    name: str
    counts: Mapping[str, int] = field(default_factory=dict)
    claimed: int = 0
    devices: tuple[DraDevice, ...] = ()

    @property
    def title(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    def gpus(self, offers: Offers) -> int:
        """GPUs that it holds of a node with these offers, at the least."""
        return self.claimed + gpus_of(self.counts, offers)

    @property
    def words(self) -> str:
        """The pod, and what it holds by claims, for messages."""
        claims = "; ".join(device.words for device in self.devices)
        return f"'{self.title}'{f' (by {claims})' if claims else ''}"


def quantity(value: object) -> int | None:
    """A whole number of devices."""
    matched = re.fullmatch(r"\d+", str(value)) if value is not None else None
    return int(matched.group()) if matched else None


def finished(pod: Pod) -> bool:
    """Whether it has given back what it held."""
    return (pod.get("status") or {}).get("phase") in FINISHED


def holders(pods: Iterable[Pod], claims: Claims) -> tuple[Holder, ...]:
    """Those that hold something; a pod that is being deleted holds it until it is gone.

    Args:
        pods: of one node or of several.
        claims: of these pods, from dra.read().
    """
    found, seen = [], set[str]()
    for pod in pods:
        if finished(pod):
            continue
        counted, devices = _counted(pod, claims.replaces(pod)), claims.held_by(pod)
        if not (counted or devices):
            continue
        claimed = {device.hardware for device in devices if device.kind is Kind.GPU} - seen
        seen |= claimed
        metadata = pod["metadata"]
        found.append(Holder(metadata["namespace"], metadata["name"], dict(counted), len(claimed), devices))
    return tuple(found)


def _counted(pod: Pod, claimed: Collection[tuple[str, str]]) -> Counter[str]:
    """By resource: containers and sidecars together, or the most that is held while an init container runs.

    Sidecars are init containers that go on: one that was started before another init container runs beside it.

    Args:
        pod: the pod.
        claimed: containers and resources for which it has a claim instead.
    """
    spec = pod.get("spec") or {}
    sidecars, most = Counter[str](), Counter[str]()
    for row in spec.get("initContainers") or []:
        if row.get("restartPolicy") == "Always":
            sidecars += _asked(row, claimed)
        else:
            most |= sidecars + _asked(row, claimed)
    for row in spec.get("containers") or []:
        sidecars += _asked(row, claimed)
    return most | sidecars


def _asked(container: Mapping[str, Any], claimed: Collection[tuple[str, str]]) -> Counter[str]:
    limits = (container.get("resources") or {}).get("limits") or {}
    wanted = {name: quantity(value) or 0 for name, value in limits.items()}
    return Counter(
        {
            name: count
            for name, count in wanted.items()
            if count and is_gpu(name) and (container.get("name"), name) not in claimed
        }
    )
