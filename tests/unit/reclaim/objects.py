"""Pods that hold GPUs and what made them, as the API has them."""

from __future__ import annotations

import itertools
from typing import Any

NOW = 1_800_000_000.0
"""2027-01-15T08:00:00Z."""
LONG_AGO = "2027-01-14T08:00:00Z"
GPU = "nvidia.com/gpu"
NODES = [{"metadata": {"name": "n1", "labels": {}}}]
_UIDS = itertools.count(1)


def made(kind: str, name: str, by: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    """A Deployment, ReplicaSet, …; 'by' is its owner."""
    spec = {"parallelism": 2} if kind == "Job" else {"replicas": 2}
    found = {"name": name, "namespace": "a", "uid": f"u{next(_UIDS)}", "resourceVersion": "7", **metadata}
    return {
        "kind": kind,
        "metadata": found | ({"ownerReferences": [reference(by)]} if by else {}),
        "spec": spec,
    }


def reference(row: dict[str, Any]) -> dict[str, Any]:
    metadata = row["metadata"]
    return {"kind": row["kind"], "name": metadata["name"], "uid": metadata["uid"], "controller": True}


def pod(
    name: str,
    by: dict[str, Any] | None = None,
    gpus: int = 1,
    resource: str = GPU,
    node: str = "n1",
    started: str = LONG_AGO,
    phase: str = "Running",
    spec: dict[str, Any] | None = None,
    **metadata: Any,
) -> dict[str, Any]:
    limits = {resource: str(gpus)} if gpus else {}
    ready = {"type": "Initialized", "status": "True", "lastTransitionTime": started}
    return {
        "metadata": {"name": name, "namespace": "a", "uid": f"u{next(_UIDS)}", **metadata}
        | ({"ownerReferences": [reference(by)]} if by else {}),
        "spec": {
            "nodeName": node,
            "containers": [{"name": "m", "resources": {"limits": limits}}],
            **(spec or {}),
        },
        "status": {"phase": phase, "startTime": LONG_AGO, "conditions": [ready]},
    }
