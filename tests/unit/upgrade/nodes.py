"""Node objects in all conditions that an upgrade meets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gpusmith.change import ledger
from gpusmith.change.ledger import Ledger, State
from gpusmith.names import STAMP, STARTUP_TAINT, UPGRADE

OLD, NEW = "580.178.04", "580.200.01"
H100 = "NVIDIA-H100-80GB-HBM3"
NOW = "2026-11-22T12:00:00Z"


def node(
    name: str,
    gpus: int = 4,
    *,
    allocatable: int | None = None,
    product: str = H100,
    kind: str = "h100-sxm",
    cordoned: bool = False,
    ready: bool = True,
    tainted: bool | str = False,
    entry: Ledger | None = None,
    stamp: str = OLD,
    since: str = "2026-01-01T00:00:00Z",
    labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A node that serves, changed as the arguments say; an empty stamp is none."""
    taint = STARTUP_TAINT if tainted is True else tainted
    annotations = {STAMP: json.dumps({"driver": stamp, "time": since})} if stamp else {}
    if entry is not None:
        annotations[UPGRADE] = ledger.written(entry)
    return {
        "metadata": {
            "name": name,
            "resourceVersion": "7",
            "annotations": annotations,
            "labels": {
                **({"nvidia.com/gpu.product": product} if product else {}),
                **({"gpu-type": kind} if kind else {}),
                **(labels or {}),
            },
        },
        "spec": {
            **({"unschedulable": True} if cordoned else {}),
            **({"taints": [{"key": taint, "effect": "NoSchedule"}]} if taint else {}),
        },
        "status": {
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "capacity": {"nvidia.com/gpu": str(gpus)},
            "allocatable": {"nvidia.com/gpu": str(gpus if allocatable is None else allocatable)},
        },
    }


def entry(state: State, run: str = "r1", target: str = NEW, since: str = NOW, **changes: Any) -> Ledger:
    """The ledger of an upgrade from OLD to NEW."""
    return Ledger(run=run, target=target, origin=OLD, state=state, since=since, **changes)
