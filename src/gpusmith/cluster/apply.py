"""Objects that are ours alone: made what we say by server-side apply, fields of others taken away, or deleted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpusmith.cluster.api import CONFLICT, JSON_PATCH, ApiRefused, Cluster, Object
from gpusmith.cluster.managed_fields import additions, own_fields, taken_over, title
from gpusmith.errors import GpusmithError, ToolError
from gpusmith.names import MANAGED_BY, MANAGER
from gpusmith.wait import Deadline, Done, NotYet, WaitTimeout, wait_until

ALONE = {
    "DaemonSet": "daemonsets",
    "Deployment": "deployments",
    "RuntimeClass": "runtimeclasses",
    "ConfigMap": "configmaps",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
}
"""Kinds in which nobody else has a field, with their names in paths."""
SHARED = {
    "Namespace": "namespaces",
    "ServiceAccount": "serviceaccounts",
    "CustomResourceDefinition": "customresourcedefinitions",
}
"""Kinds in which controllers write by design."""
PLURALS = ALONE | SHARED
NOT_CONTENT = ("resourceVersion", "generation", "managedFields", "creationTimestamp", "uid")
TRIES = 5
TICK_S = 1.0


@dataclass
class Applied:
    """What an apply did.

    Attributes:
        foreign: by object, the fields that others had set.
        changed: by object, what it was before (empty if it was not there) and what it is now.
        left_out: objects that could not be tried out.
    """

    foreign: dict[str, list[str]] = field(default_factory=dict)
    changed: dict[str, tuple[Object, Object]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


def path_of(wanted: Mapping[str, Any]) -> str:
    """Where the API server has an object.

    Raises:
        GpusmithError: its kind is none that we apply.
    """
    kind, version, metadata = wanted["kind"], wanted["apiVersion"], wanted["metadata"]
    if kind not in PLURALS:
        raise GpusmithError(
            f"Objects of kind '{kind}' are not known here.", "Add the kind to gpusmith.cluster.apply."
        )
    namespace = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"/{'apis' if '/' in version else 'api'}/{version}{namespace}/{PLURALS[kind]}/{metadata['name']}"


def name_of(wanted: Mapping[str, Any]) -> str:
    """What an object is called in sentences."""
    metadata = wanted["metadata"]
    return title(wanted["kind"], metadata["name"], metadata.get("namespace", ""))


def apply(cluster: Cluster, objects: Sequence[Object], check: bool) -> Applied:
    """Make all of them what they are here.

    Args:
        cluster: the API.
        objects: whole manifests.
        check: have the API server try it out only. It cannot where the namespace does not exist yet: that is left out.

    Raises:
        ToolError: the cluster does not answer, or does not take a change.
    """
    done = Applied()
    for wanted in objects:
        if wanted["kind"] == "RuntimeClass":
            _refuse_another_handler(cluster, wanted)
    missing = _missing_namespaces(cluster, objects) if check else frozenset[str]()
    for wanted in objects:
        name = name_of(wanted)
        if wanted["metadata"].get("namespace") in missing:
            done.left_out.append(name)
            continue
        path = path_of(wanted)
        before = cluster.get(path)
        if before and wanted["kind"] in ALONE and additions(before):
            done.foreign[name] = take_over(cluster, path, check)
        after = cluster.apply(path, wanted, MANAGER, dry_run=check)
        if before is None or _differs(before, after):
            done.changed[name] = (_content(before), _content(after))
    return done


def take_over(cluster: Cluster, path: str, check: bool) -> list[str]:
    """The fields of one object that others set; nobody but us owns them afterwards, so that the next apply takes them away.

    Raises:
        ToolError: the cluster does not answer, or does not take the change.
    """
    for left in reversed(range(TRIES)):
        found = cluster.get(path)
        fields = additions(found) if found else []
        if not found or not fields:
            break
        # As kubectl does it: a replaced version is answered with a conflict, a tested one with an invalid request.
        version = found["metadata"]["resourceVersion"]
        body: list[Object] = [
            {"op": "replace", "path": "/metadata/managedFields", "value": taken_over(found)},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
        ]
        try:
            cluster.patch(path, body, MANAGER, JSON_PATCH, dry_run=check)
            return fields
        except ApiRefused as error:
            # Controllers write the status while pods come and go: what was read is no longer the newest.
            if error.status != CONFLICT or not left:
                raise
    return []


def remove(
    cluster: Cluster,
    objects: Iterable[Object],
    timeout_s: float,
    check: bool,
    sleep: Callable[[float], None] = time.sleep,
) -> list[str]:
    """Delete all of them and wait until they are gone; the names of those that were there.

    Raises:
        ToolError: one is still there at the end, or the cluster does not take the change.
    """
    paths = {path_of(wanted): name_of(wanted) for wanted in objects}
    if check:
        return [name for path, name in paths.items() if cluster.get(path) is not None]
    deleted = {path: name for path, name in paths.items() if cluster.delete(path)}

    def look() -> Done[None] | NotYet:
        left = [name for path, name in deleted.items() if cluster.get(path) is not None]
        return NotYet(f"{', '.join(left)} still there") if left else Done(None)

    try:
        wait_until("the operands to be gone", look, Deadline(timeout_s), TICK_S, sleep)
    except WaitTimeout as error:
        raise ToolError(
            error.message, "Look at the finalizers of what is left with 'kubectl get KIND NAME -o yaml'."
        ) from error
    return list(deleted.values())


def ours(cluster: Cluster, objects: Iterable[Object]) -> list[Object]:
    """Those that are there and say that they are ours; somebody else may have one of the same name."""
    return [wanted for wanted in objects if _is_ours(cluster.get(path_of(wanted)))]


def _is_ours(found: Object | None) -> bool:
    return bool(found) and ((found or {})["metadata"].get("labels") or {}).get(MANAGED_BY) == MANAGER


def former_classes(cluster: Cluster, objects: Iterable[Object]) -> list[str]:
    """RuntimeClasses of ours by names that we do not apply any more."""
    wanted = {row["metadata"]["name"] for row in objects if row["kind"] == "RuntimeClass"}
    found = cluster.items("/apis/node.k8s.io/v1/runtimeclasses", labelSelector=f"{MANAGED_BY}={MANAGER}")
    return sorted({str(row["metadata"]["name"]) for row in found} - wanted)


def _refuse_another_handler(cluster: Cluster, wanted: Object) -> None:
    """The one field of our objects that nobody can change."""
    name = wanted["metadata"]["name"]
    found = cluster.get(path_of(wanted))
    if found and found["handler"] != wanted["handler"]:
        raise GpusmithError(
            f"RuntimeClass '{name}' has handler '{found['handler']}', not '{wanted['handler']}', which cannot be changed.",
            f"If nobody needs it as it is: 'kubectl delete runtimeclass {name}', then run this again.",
        )


def _missing_namespaces(cluster: Cluster, objects: Iterable[Object]) -> frozenset[str]:
    asked = {str(row["metadata"]["namespace"]) for row in objects if "namespace" in row["metadata"]}
    return frozenset(name for name in asked if cluster.get(f"/api/v1/namespaces/{name}") is None)


def _differs(before: Object, after: Object) -> bool:
    """Whether an apply changed something, by what the API server answers; controllers may have written the status meanwhile."""
    return _content(before) != _content(after) or own_fields(before) != own_fields(after)


def _content(found: Object | None) -> Object:
    """What somebody means by an object, without the API server's bookkeeping."""
    if found is None:
        return {}
    metadata = {key: value for key, value in found["metadata"].items() if key not in NOT_CONTENT}
    return {**{key: value for key, value in found.items() if key != "status"}, "metadata": metadata}
