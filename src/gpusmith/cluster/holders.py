"""Who holds GPUs of a node: one rule for the suite, which leaves them alone, and for whoever empties a node."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpusmith.names import GPU_RESOURCE

Pod = Mapping[str, Any]

FINISHED = ("Succeeded", "Failed")
PART = re.compile(r"nvidia\.com/(mig-.+|gpu[.-].+)")
"""Resources that are parts of GPUs, or shares in one: 'gpu.shared', and names that sharing gives. 'hostdev' is no GPU."""


@dataclass(frozen=True)
class Holder:
    """A pod that GPUs are allocated to, or parts of some.

    Attributes:
        namespace: of the pod.
        name: of the pod.
        gpus: whole ones.
        parts: MIG devices and shares, by resource.
    """

    namespace: str
    name: str
    gpus: int
    parts: Mapping[str, int] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"


def quantity(value: object) -> int | None:
    """A whole number of devices."""
    matched = re.fullmatch(r"\d+", str(value)) if value is not None else None
    return int(matched.group()) if matched else None


def finished(pod: Pod) -> bool:
    """Whether it has given back what it held."""
    return (pod.get("status") or {}).get("phase") in FINISHED


def holders(pods: Iterable[Pod]) -> tuple[Holder, ...]:
    """Those that hold something; a pod that is being deleted holds it until it is gone."""
    found = []
    for pod in pods:
        counted = _counted(pod) if not finished(pod) else Counter[str]()
        if counted:
            parts = {name: count for name, count in counted.items() if name != GPU_RESOURCE}
            metadata = pod["metadata"]
            found.append(Holder(metadata["namespace"], metadata["name"], counted[GPU_RESOURCE], parts))
    return tuple(found)


def _counted(pod: Pod) -> Counter[str]:
    """By resource: containers and sidecars together, or the most that is held while an init container runs.

    Sidecars are init containers that go on: one that was started before another init container runs beside it.
    """
    spec = pod.get("spec") or {}
    sidecars, most = Counter[str](), Counter[str]()
    for row in spec.get("initContainers") or []:
        if row.get("restartPolicy") == "Always":
            sidecars += _asked(row)
        else:
            most |= sidecars + _asked(row)
    for row in spec.get("containers") or []:
        sidecars += _asked(row)
    return most | sidecars


def _asked(container: Mapping[str, Any]) -> Counter[str]:
    limits = (container.get("resources") or {}).get("limits") or {}
    wanted = {name: quantity(value) or 0 for name, value in limits.items()}
    return Counter(
        {
            name: count
            for name, count in wanted.items()
            if count and (name == GPU_RESOURCE or PART.fullmatch(name))
        }
    )
