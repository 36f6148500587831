"""Objects that are ours alone: made what we say by server-side apply, fields of others taken away, or deleted."""

from __future__ import annotations

import copy
import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpusmith.cluster.api import CONFLICT, JSON_PATCH, ApiRefused, Cluster, Object
from gpusmith.cluster.managed_fields import additions, own_fields, taken_over, title
from gpusmith.errors import GpusmithError, ToolError
from gpusmith.names import MANAGED_BY, MANAGER
from gpusmith.wait import Deadline, Done, NotYet, WaitTimeout, wait_until

SHARED = frozenset({"Namespace", "ServiceAccount", "CustomResourceDefinition", "PersistentVolumeClaim"})
"""Kinds in which controllers write by design; in objects of every other kind nobody else has a field."""
FIRST = ("Namespace", "CustomResourceDefinition")
"""Kinds that others need: made first and deleted last."""
SECRET = "Secret"  # noqa: S105 - the name of a kind
NOT_CONTENT = ("resourceVersion", "generation", "managedFields", "creationTimestamp", "uid")
TRIES = 5
TICK_S = 1.0
ESTABLISHED_S = 60.0
"""Until the API server has a kind whose CustomResourceDefinition it has taken."""


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


def path_of(cluster: Cluster, wanted: Mapping[str, Any], again: bool = False) -> str | None:
    """Where the API server has an object; None if it does not know its kind.

    Args:
        cluster: the API.
        wanted: the object.
        again: ask for its kind once more if it was not known.
    """
    name, version, metadata = wanted["kind"], wanted["apiVersion"], wanted["metadata"]
    kind = cluster.kinds(version).get(name) or (
        cluster.kinds(version, again=True).get(name) if again else None
    )
    if kind is None:
        return None
    namespace = f"/namespaces/{metadata['namespace']}" if kind.namespaced else ""
    return f"/{'apis' if '/' in version else 'api'}/{version}{namespace}/{kind.plural}/{metadata['name']}"


def name_of(wanted: Mapping[str, Any]) -> str:
    """What an object is called in sentences."""
    metadata = wanted["metadata"]
    return title(wanted["kind"], metadata["name"], metadata.get("namespace", ""))


def of_site(wanted: Object, labels: Mapping[str, str], pull_secrets: Sequence[str]) -> Object:
    """An object with what a site asks for: labels, also of its pods, and Secrets with which they pull images.

    Args:
        wanted: the manifest; its own labels win, since selectors go by them.
        labels: of the site.
        pull_secrets: names in the object's namespace.
    """
    made = copy.deepcopy(wanted)
    template = (made.get("spec") or {}).get("template") or {}
    for part in (made, template) if template else (made,):
        if labels:
            metadata = part.setdefault("metadata", {})
            metadata["labels"] = {**labels, **(metadata.get("labels") or {})}
    if template and pull_secrets:
        template["spec"]["imagePullSecrets"] = [{"name": name} for name in pull_secrets]
    return made


def apply(
    cluster: Cluster, objects: Sequence[Object], check: bool, sleep: Callable[[float], None] = time.sleep
) -> Applied:
    """Make all of them what they are here, namespaces and kinds before what is in them and of them.

    Args:
        cluster: the API.
        objects: whole manifests.
        check: have the API server try it out only. It cannot where the namespace or the kind comes with them: that is left out.
        sleep: replaced in tests.

    Raises:
        GpusmithError: one of them is of a kind that the cluster does not know, or cannot be what it is here; nothing is changed.
        ToolError: the cluster does not answer, or does not take a change.
    """
    done = Applied()
    for wanted in objects:
        _refuse_unknown_kind(cluster, wanted, objects)
        if wanted["kind"] == "RuntimeClass":
            _refuse_another_handler(cluster, wanted)
    missing = _missing_namespaces(cluster, objects) if check else frozenset[str]()
    for wanted in sorted(objects, key=_rank):
        name = name_of(wanted)
        path = path_of(cluster, wanted) if check else _path_soon(cluster, wanted, sleep)
        if path is None or wanted["metadata"].get("namespace") in missing:
            done.left_out.append(name)
            continue
        before = cluster.get(path)
        if before and wanted["kind"] not in SHARED and additions(before):
            done.foreign[name] = take_over(cluster, path, check)
        after = cluster.apply(path, wanted, MANAGER, dry_run=check)
        if before is None or _differs(before, after):
            done.changed[name] = (_shown(before), _shown(after))
    return done


def _rank(wanted: Mapping[str, Any]) -> int:
    return FIRST.index(wanted["kind"]) if wanted["kind"] in FIRST else len(FIRST)


def _path_soon(cluster: Cluster, wanted: Object, sleep: Callable[[float], None]) -> str:
    """Where an object goes whose CustomResourceDefinition may have been made a moment ago."""

    def look() -> Done[str] | NotYet:
        path = path_of(cluster, wanted, again=True)
        return Done(path) if path else NotYet("it is not served")

    what = f"the API server to serve kind '{wanted['kind']}'"
    return wait_until(what, look, Deadline(ESTABLISHED_S), TICK_S, sleep)


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
    """Delete all of them, namespaces last, and wait until they are gone; the names of those that were there.

    Raises:
        ToolError: one is still there at the end, or the cluster does not take the change.
    """
    # Of a kind that the cluster does not know there is nothing.
    found = (
        (path_of(cluster, wanted), name_of(wanted)) for wanted in sorted(objects, key=_rank, reverse=True)
    )
    paths = {path: name for path, name in found if path}
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
    return [
        wanted for wanted in objects if (path := path_of(cluster, wanted)) and _is_ours(cluster.get(path))
    ]


def _is_ours(found: Object | None) -> bool:
    return bool(found) and ((found or {})["metadata"].get("labels") or {}).get(MANAGED_BY) == MANAGER


def claims(cluster: Cluster, objects: Iterable[Object]) -> dict[str, list[str]]:
    """By name of a namespace among them, its PersistentVolumeClaims: what is in them would go with it."""
    spaces = [row["metadata"]["name"] for row in objects if row["kind"] == "Namespace"]
    found = {name: cluster.items(f"/api/v1/namespaces/{name}/persistentvolumeclaims") for name in spaces}
    return {name: sorted(row["metadata"]["name"] for row in rows) for name, rows in found.items() if rows}


def tenants(cluster: Cluster, space: str) -> list[str]:
    """Names of what somebody else runs in a namespace: it would go with it."""
    return [
        str(row["metadata"]["name"])
        for kind in ("daemonsets", "deployments", "statefulsets")
        for row in cluster.items(f"/apis/apps/v1/namespaces/{space}/{kind}")
        if not _is_ours(row)
    ]


def former_classes(cluster: Cluster, objects: Iterable[Object]) -> list[str]:
    """RuntimeClasses of ours by names that we do not apply any more; none if the objects are without one."""
    wanted = {row["metadata"]["name"] for row in objects if row["kind"] == "RuntimeClass"}
    if not wanted:
        return []
    found = cluster.items("/apis/node.k8s.io/v1/runtimeclasses", labelSelector=f"{MANAGED_BY}={MANAGER}")
    return sorted({str(row["metadata"]["name"]) for row in found} - wanted)


def _refuse_unknown_kind(cluster: Cluster, wanted: Object, objects: Iterable[Object]) -> None:
    """Before anything is changed; a kind may come with the objects."""
    kind, version = wanted["kind"], wanted["apiVersion"]
    if path_of(cluster, wanted) or (version.partition("/")[0], kind) in map(_defined, objects):
        return
    raise GpusmithError(
        f"The cluster does not know kind '{kind}' of '{version}', as which {name_of(wanted)} would be made.",
        "Install what brings it, such as its CustomResourceDefinition, or leave out what needs it.",
    )


def _defined(row: Object) -> tuple[str, str]:
    """Group and kind that a CustomResourceDefinition brings."""
    spec = row.get("spec") or {}
    return (spec["group"], spec["names"]["kind"]) if row["kind"] == "CustomResourceDefinition" else ("", "")


def _refuse_another_handler(cluster: Cluster, wanted: Object) -> None:
    """The one field of our objects that nobody can change."""
    name, path = wanted["metadata"]["name"], path_of(cluster, wanted)
    found = cluster.get(path) if path else None
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


def _shown(found: Object | None) -> Object:
    """The same for a person: of what a Secret keeps only whether it has changed."""
    content = _content(found)
    if content.get("kind") != SECRET:
        return content
    kept = {
        key: hashlib.sha256(str(value).encode()).hexdigest()[:8]
        for key, value in (content.get("data") or {}).items()
    }
    return {**content, "data": {key: f"hidden, checksum {digest}" for key, digest in kept.items()}}
