"""Pods on a node, and which of them reach its devices without asking for them."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

SYSTEM = "kube-"
"""How names of Kubernetes' own namespaces begin."""
SERVES_NODES = ("DaemonSet", "Node")
"""Kinds of owners of pods that serve a node, rather than compute on it; static pods are owned by their Node."""


@dataclass(frozen=True)
class Tenant:
    """A pod.

    Attributes:
        uid: of the pod.
        namespace: of the pod.
        name: of the pod.
        owner: kind and name of its controller; empty if it has none.
        reach: how it can reach all devices of the node; empty if it cannot.
        system: whether it is of Kubernetes itself, or an operand.
        serves: whether it serves the node.
    """

    uid: str
    namespace: str
    name: str
    owner: str = ""
    reach: str = ""
    system: bool = False
    serves: bool = False

    @property
    def title(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def words(self) -> str:
        """How messages name it."""
        return f"'{self.title}' ({', '.join(filter(None, (self.reach, self.owner or 'no controller')))})"


def tenant_of(pod: Mapping[str, Any], operands_namespace: str) -> Tenant:
    """A pod, from the API's own data."""
    metadata = pod["metadata"]
    owners = metadata.get("ownerReferences") or []
    owner = next((row for row in owners if row.get("controller")), owners[0] if owners else {})
    system = metadata["namespace"].startswith(SYSTEM) or metadata["namespace"] == operands_namespace
    return Tenant(
        uid=str(metadata.get("uid") or ""),
        namespace=metadata["namespace"],
        name=metadata["name"],
        owner=f"{owner.get('kind')} '{owner.get('name')}'" if owner else "",
        reach=", ".join(_reaches(pod.get("spec") or {})),
        system=system,
        serves=system or owner.get("kind") in SERVES_NODES,
    )


def _reaches(spec: Mapping[str, Any]) -> Iterable[str]:
    containers = [row for kind in ("initContainers", "containers") for row in spec.get(kind) or []]
    if any((row.get("securityContext") or {}).get("privileged") for row in containers):
        yield "privileged"
    for volume in spec.get("volumes") or []:
        path = posixpath.normpath((volume.get("hostPath") or {}).get("path") or ".")
        if path in ("/", "/dev") or path.startswith("/dev/nvidia"):
            yield f"mounts '{path}'"
