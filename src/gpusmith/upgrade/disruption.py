"""Whom an upgrade of a node disturbs: pods that use its GPUs, whose they are, and what protects them from an eviction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpusmith.cluster import operands
from gpusmith.cluster.api import Object
from gpusmith.cluster.dra import Claims
from gpusmith.cluster.holders import finished, holders
from gpusmith.data.operands import rows
from gpusmith.names import OPERANDS_LABEL, OPERANDS_ON

DAEMON_SET = "DaemonSet"
RUNTIME_CLASS = "nvidia"
"""What others call the class that ours is by default."""
VISIBLE = "NVIDIA_VISIBLE_DEVICES"
NONE_VISIBLE = ("", "none", "void")


@dataclass(frozen=True)
class Claimant:
    """A pod that uses GPUs of a node.

    Attributes:
        pod: namespace and name.
        owner: kind and name of what made it; empty if a person did.
        gpus: how many were allocated to it, 0 for one that uses the driver without.
        budgets: PodDisruptionBudgets that protect it, with how many evictions each allows now.
        devices: what it holds by claims, in words.
    """

    pod: str
    owner: str
    gpus: int
    budgets: Mapping[str, int] = field(default_factory=dict)
    devices: tuple[str, ...] = ()


def claimants(
    pods: Iterable[Object],
    claims: Claims,
    budgets: Sequence[Object],
    namespace: str,
    users: Collection[str] = (),
) -> tuple[Claimant, ...]:
    """Pods of a node that hold GPUs or use the driver, without our operands.

    Args:
        pods: of the node.
        claims: of these pods.
        budgets: PodDisruptionBudgets of the cluster.
        namespace: of our operands.
        users: UIDs of pods whose processes use the driver.
    """
    found = []
    for pod in pods:
        metadata, held = pod["metadata"], holders([pod], claims)
        used = metadata.get("uid") in users and metadata["namespace"] != namespace
        if finished(pod) or not (held or used):
            continue
        covering = {
            row["metadata"]["name"]: int((row.get("status") or {}).get("disruptionsAllowed") or 0)
            for row in budgets
            if covers(row, metadata)
        }
        gpus = sum(holder.claimed + sum(holder.counts.values()) for holder in held)
        devices = tuple(device.words for holder in held for device in holder.devices)
        found.append(Claimant(_title(metadata), "/".join(_owner(pod)), gpus, covering, devices))
    return tuple(found)


def daemon_sets(
    pods: Iterable[Object],
    claims: Claims,
    namespace: str,
    users: Collection[str] = (),
    runtime_class: str = RUNTIME_CLASS,
) -> list[str]:
    """DaemonSets of others that use the driver on a node and stay there while our operands leave; args as of claimants()."""
    classes = {RUNTIME_CLASS, runtime_class}
    return sorted(
        {
            f"{pod['metadata']['namespace']}/{_owner(pod)[1]}"
            for pod in pods
            if _owner(pod)[:1] == (DAEMON_SET,)
            and pod["metadata"]["namespace"] != namespace
            and (pod["spec"].get("nodeSelector") or {}).get(OPERANDS_LABEL) != OPERANDS_ON
            and (pod["metadata"].get("uid") in users or _uses_driver(pod, claims, classes))
        }
    )


def _title(metadata: Mapping[str, Any]) -> str:
    return f"{metadata['namespace']}/{metadata['name']}"


def _owner(pod: Object) -> tuple[str, ...]:
    """Kind and name of the controller, if it has one."""
    rows = pod["metadata"].get("ownerReferences") or []
    return next(((str(row["kind"]), str(row["name"])) for row in rows if row.get("controller")), ())


def _uses_driver(pod: Object, claims: Claims, classes: Collection[str] = (RUNTIME_CLASS,)) -> bool:
    spec = pod["spec"]
    containers = spec.get("containers") or []
    asked = {
        str(row.get("value") or "")
        for container in containers
        for row in container.get("env") or []
        if row.get("name") == VISIBLE
    }
    return bool(
        holders([pod], claims)
        or operands.components(spec) & {row.component for row in rows() if row.with_driver}
        or spec.get("runtimeClassName") in classes
        or asked.difference(NONE_VISIBLE)
    )


def covers(budget: Object, metadata: Mapping[str, Any]) -> bool:
    """Whether a PodDisruptionBudget of policy/v1 selects a pod: an empty selector selects all, none selects nothing."""
    selector = (budget.get("spec") or {}).get("selector")
    if selector is None or budget["metadata"]["namespace"] != metadata["namespace"]:
        return False
    labels = metadata.get("labels") or {}
    return all(
        labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items()
    ) and all(_matches(row, labels) for row in selector.get("matchExpressions") or [])


def _matches(row: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    there, among = row["key"] in labels, labels.get(row["key"]) in (row.get("values") or [])
    return {"In": there and among, "NotIn": not among, "Exists": there, "DoesNotExist": not there}[
        row["operator"]
    ]
