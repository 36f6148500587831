"""PriorityClasses of the suite's pods: they have the lowest priority, and preempt no pod but one of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpusmith.cluster.api import CONFLICT, DRY, ApiRefused, Cluster, Object
from gpusmith.errors import ToolError
from gpusmith.names import GPU_RESOURCE, MANAGED_BY, MANAGER, PREEMPTING_CLASS, PRIORITY_CLASS
from gpusmith.workloads import jobs
from gpusmith.workloads.jobs import PodTask, Run

FOLDER = "/apis/scheduling.k8s.io/v1/priorityclasses"
VALUE = -1_000_000_000
"""Below what users set, so that a pending pod of the suite is scheduled after theirs."""
RBAC = "kubectl apply -f validation/rbac.yml"
FORBIDDEN = 403


def manifest() -> Object:
    """The same as in validation/rbac.yml."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": PRIORITY_CLASS, "labels": {MANAGED_BY: MANAGER}},
        "value": VALUE,
        "preemptionPolicy": "Never",
        "description": "Test pods of gpusmith's validation: they preempt nobody, and give way to everybody.",
    }


def preempting() -> Object:
    """The class of the one pod that preempts another one of the suite; likewise."""
    return {
        **manifest(),
        "metadata": {"name": PREEMPTING_CLASS, "labels": {MANAGED_BY: MANAGER}},
        "value": VALUE + 1,
        "preemptionPolicy": "PreemptLowerPriority",
        "description": "A test pod of gpusmith's validation: it preempts other test pods, and gives way to everybody.",
    }


def ensure(cluster: Cluster, wanted: Object | None = None) -> None:
    """Create a class if it is missing and this user may. It is never deleted, since other runs may need it.

    Args:
        cluster: the API.
        wanted: the class; that of the suite's pods, if left out.

    Raises:
        ToolError: it is missing or harmful; without it no pod is made.
    """
    wanted = wanted or manifest()
    name = wanted["metadata"]["name"]
    try:
        there = cluster.get(f"{FOLDER}/{name}") or _create(cluster, wanted)
    except ApiRefused as error:
        if error.status != FORBIDDEN:
            raise
        raise ToolError(
            f"PriorityClass '{name}', which keeps the suite's pods from preempting others, is missing or may not be read:"
            f" {error.message}",
            f"Have an administrator run, once: {RBAC}",
        ) from error
    wrong = harm(there) if name == PRIORITY_CLASS else other(there, wanted)
    if wrong:
        raise ToolError(
            f"PriorityClass '{name}' {wrong}, so the suite's pods could take the place of others.",
            f"It cannot be changed. Make it anew: kubectl delete priorityclass {name}; then {RBAC}",
        )


def there(cluster: Cluster) -> str:
    """Name of the class where an administrator has made it; empty where it is missing, unfit or may not be read."""
    try:
        found = cluster.get(f"{FOLDER}/{PRIORITY_CLASS}")
    except ApiRefused as error:
        if error.status != FORBIDDEN:
            raise
        return ""
    return PRIORITY_CLASS if found and not harm(found) else ""


def of_default(cluster: Cluster, run: Run, node: str, image: str) -> str:
    """What pods without the class may do to others, as the API server admits one that is not made; empty if nothing.

    Args:
        cluster: the API.
        run: in a namespace that stays.
        node: to which it would go.
        image: of the pod.
    """
    task = PodTask("priority", node, image, ["true"], 0, simulated=False, resource=GPU_RESOURCE)
    try:
        made = cluster.create(f"/api/v1/namespaces/{run.namespace}/pods", jobs.pod(run, task), DRY)
    except ApiRefused:
        return ""  # the pods that are made say why
    value, policy = (made["spec"].get(key) for key in ("priority", "preemptionPolicy"))
    if not value and policy == "Never":
        return ""
    harm = "they preempt nobody" if policy == "Never" else "they may preempt pods with less"
    return f"without PriorityClass '{PRIORITY_CLASS}', pods of this run have priority {value or 0}, and {harm}: {RBAC}"


def _create(cluster: Cluster, wanted: Object) -> Object:
    try:
        return cluster.create(FOLDER, wanted)
    except ApiRefused as error:
        there = cluster.get(f"{FOLDER}/{wanted['metadata']['name']}") if error.status == CONFLICT else None
        if there is None:
            raise
        return there


def harm(found: Mapping[str, Any]) -> str:
    """What makes a PriorityClass of that name unfit; empty if nothing does."""
    value, policy = int(found.get("value") or 0), found.get("preemptionPolicy") or "PreemptLowerPriority"
    if value >= 0:
        return f"has value {value}, which is not negative"
    return "" if policy == "Never" else f"has preemptionPolicy '{policy}', not 'Never'"


def other(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """How a class differs from the one that preempts; empty if it does not."""
    given, right = int(found.get("value") or 0), int(wanted["value"])
    return f"has value {given}, not {right}" if given != right else ""
