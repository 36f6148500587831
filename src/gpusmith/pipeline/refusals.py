"""What a cluster lacks for the pipeline, or has that is not the pipeline's: said before anything is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpusmith.cluster.api import Cluster, Object
from gpusmith.cluster.apply import name_of, path_of
from gpusmith.cluster.dra import NO_CLAIMS
from gpusmith.cluster.holders import holders
from gpusmith.cluster.storage import class_missing
from gpusmith.cluster.views import NODES, PODS, is_cordoned, offered, readiness
from gpusmith.errors import Refusal
from gpusmith.names import GPU_RESOURCE, MANAGED_BY, MANAGER, TENANT_LABEL
from gpusmith.pipeline.manifests import PART_OF, PIPELINE, PREPROCESS, TRAIN, Pipeline
from gpusmith.wording import quoted, shorten

NO_ROOM = ("NoSchedule", "NoExecute")
"""Effects of taints that keep pods away."""


def refusals(cluster: Cluster, pipeline: Pipeline) -> list[Refusal]:
    """All reasons.

    Raises:
        ToolError: the cluster does not answer, or refuses.
    """
    pods, nodes = cluster.items(PODS), cluster.items(NODES)
    return [
        *_of_others(cluster, pipeline),
        *port_taken(cluster.items("/api/v1/services"), pipeline),
        *class_missing(
            cluster, pipeline.namespace, "pipeline-data", pipeline.storage_class, "gpu_pipeline_storage_class"
        ),
        *no_place(nodes, pipeline),
        *no_gpu(nodes, pods, pipeline),
    ]


def is_ours(row: Mapping[str, Any] | None) -> bool:
    """Whether a run of the playbook made an object."""
    labels = ((row or {}).get("metadata") or {}).get("labels") or {}
    return (labels.get(PART_OF), labels.get(MANAGED_BY)) == (PIPELINE, MANAGER)


def of_team(space: Mapping[str, Any] | None) -> bool:
    """Whether a namespace is that of a team."""
    return TENANT_LABEL in (((space or {}).get("metadata") or {}).get("labels") or {})


def wanted(cluster: Cluster, pipeline: Pipeline, rows: Iterable[Object]) -> list[Object]:
    """What a run makes of these: all of them, but no namespace of a team's."""
    space = cluster.get(f"/api/v1/namespaces/{pipeline.namespace}")
    return [row for row in rows if row["kind"] != "Namespace" or not of_team(space)]


def _of_others(cluster: Cluster, pipeline: Pipeline) -> list[Refusal]:
    name, found = pipeline.namespace, []
    space = cluster.get(f"/api/v1/namespaces/{name}")
    if space and not (is_ours(space) or of_team(space)):
        return [
            Refusal(
                f"Namespace '{name}' is there, and is neither the pipeline's nor a team's.",
                "Set 'gpu_pipeline_namespace' to another name, or to the namespace of a team of 'gpu_tenants_teams'."
                f" If you made it from the manifests: kubectl delete namespace {name}",
            )
        ]
    for row in wanted(cluster, pipeline, pipeline.objects):
        path = path_of(cluster, row)
        there = cluster.get(path) if space and path else None
        if there and not is_ours(there):
            found.append(
                Refusal(
                    f"{name_of(row)} is there, and the pipeline did not make it.",
                    "Set 'gpu_pipeline_namespace' to another namespace.",
                )
            )
    return found


def port_taken(services: Iterable[Mapping[str, Any]], pipeline: Pipeline) -> list[Refusal]:
    """Somebody else's Service has the port."""
    taken = [
        f"{row['metadata']['namespace']}/{row['metadata']['name']}"
        for row in services
        for port in (row.get("spec") or {}).get("ports") or []
        if port.get("nodePort") == pipeline.node_port and not is_ours(row)
    ]
    return [
        Refusal(
            f"Port {pipeline.node_port} of all nodes is that of Service '{name}'.",
            "Set 'gpu_pipeline_node_port' to a free one.",
        )
        for name in taken
    ]


def no_place(nodes: Iterable[Object], pipeline: Pipeline) -> list[Refusal]:
    """No node takes the pod that needs no GPU."""
    (spec,) = (row["spec"]["template"]["spec"] for row in pipeline.of(PREPROCESS) if row["kind"] == "Job")
    kept = {row["metadata"]["name"]: kept_by(row, spec) for row in nodes}
    if not all(kept.values()):
        return []
    why = shorten([f"{name} ({said})" for name, said in kept.items()])
    return [
        Refusal(
            f"No node takes a pod that asks for no GPU: {why}.",
            "Add a node without these taints, or name those that the pod may tolerate in 'gpu_pipeline_cpu_tolerations'.",
        )
    ]


def no_gpu(nodes: Iterable[Object], pods: Iterable[Object], pipeline: Pipeline) -> list[Refusal]:
    """No whole GPU is free for a pod; what the pipeline's own pods hold comes free, since they are made anew."""
    (spec,) = (row["spec"]["template"]["spec"] for row in pipeline.of(TRAIN))
    others = [row for row in pods if not is_ours(row)]
    said = []
    for node in nodes:
        name, count = node["metadata"]["name"], offered(node).get(GPU_RESOURCE, 0)
        there = [row for row in others if (row.get("spec") or {}).get("nodeName") == name]
        held = sum(holder.counts.get(GPU_RESOURCE, 0) for holder in holders(there, NO_CLAIMS))
        why = kept_by(node, spec)
        if count > held and not why:
            return []
        if offered(node):
            parts = [key for key in offered(node) if key != GPU_RESOURCE]
            hands = (
                f"hands out {quoted(parts)}" if parts and not count else f"{held} of {count} GPUs are held"
            )
            said.append(f"{name} ({why or hands})")
    where = f": {shorten(said)}" if said else ": no node hands GPUs out"
    return [
        Refusal(
            f"No GPU is free for the pipeline, which asks for one '{GPU_RESOURCE}' at a time{where}.",
            "Run this again when one is free.",
        )
    ]


def kept_by(node: Object, spec: Mapping[str, Any]) -> str:
    """Why a node takes no pod of this kind, by its state, labels and taints; empty if it does."""
    if not (seen := readiness(node)).ready:
        return seen.seen
    if is_cordoned(node):
        return "cordoned"
    labels = node["metadata"].get("labels") or {}
    for key, value in (spec.get("nodeSelector") or {}).items():
        if labels.get(key) != value:
            return f"no label {key}={value}"
    for taint in (node.get("spec") or {}).get("taints") or []:
        if taint.get("effect") in NO_ROOM and not any(
            _tolerates(row, taint) for row in spec.get("tolerations") or []
        ):
            return f"taint {taint['key']}"
    return ""


def _tolerates(row: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """As Kubernetes has it (1.36, staging/src/k8s.io/api/core/v1/toleration.go)."""
    if row.get("effect") not in (None, "", taint["effect"]) or row.get("key") not in (None, "", taint["key"]):
        return False
    return row.get("operator") == "Exists" or (
        bool(row.get("key")) and (row.get("value") or "") == (taint.get("value") or "")
    )
