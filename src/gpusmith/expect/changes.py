"""Changes of services on a node that serves: one that was begun was proved, or taken back."""

from __future__ import annotations

from gpusmith.probe.managed import CHANGES
from gpusmith.probe.record import Record
from gpusmith.problems import Cure, Problem

OF = {
    "containerd": ("containerd", Cure.CONTAINERD),
    "nvidia_container_toolkit": ("containerd", Cure.CONTAINERD),
    "kubernetes_node": ("kubelet", Cure.KUBELET),
}
"""By role: the service that it changes, and the cure that does so again."""


def unproved(record: Record, node: str, role: str) -> list[Problem]:
    """A role's change that a run began and did not end."""
    unit, cure = OF[role]
    path = f"{CHANGES}/{role}.json"
    if path not in record.managed_files:
        return []
    return [
        Problem(
            f"Node '{node}': a change of '{unit}' was begun by role '{role}' and neither proved nor taken back.",
            f"Run site.yml for '{node}', which does one of the two; '{path}' has what was there before.",
            {"unproved": role},
            cure,
        )
    ]
