"""What the pipeline cannot do on a cluster is said by name before anything is made."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.pipeline.manifests import Pipeline
from gpusmith.pipeline.refusals import refusals
from tests.unit.cluster.conftest import Memory

OURS = {"app.kubernetes.io/part-of": "gpusmith-pipeline", "app.kubernetes.io/managed-by": "gpusmith"}
SPACE = "/api/v1/namespaces/here"
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
PIPELINE = Pipeline("here", "image", "nfs")


def node(
    name: str, gpus: str = "", *taints: dict[str, str], ready: str = "True", **spec: Any
) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {}},
        "spec": {"taints": list(taints), **spec},
        "status": {
            "conditions": [{"type": "Ready", "status": ready, "message": "down"}],
            "allocatable": {"nvidia.com/gpu": gpus} if gpus else {},
        },
    }


def pod(name: str, on: str, gpus: int, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "x", "labels": labels},
        "spec": {
            "nodeName": on,
            "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}],
        },
        "status": {"phase": "Running"},
    }


def cluster(**more: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """One on which the pipeline runs."""
    return {
        "/api/v1/nodes/cpu": node("cpu"),
        "/api/v1/nodes/gpu": node("gpu", "2", GPU_TAINT),
        "/apis/storage.k8s.io/v1/storageclasses/nfs": {"metadata": {"name": "nfs"}},
        **more,
    }


def said(objects: dict[str, dict[str, Any]], pipeline: Pipeline = PIPELINE) -> list[str]:
    memory = Memory(objects)
    found = [str(row) for row in refusals(memory.cluster, pipeline)]
    assert memory.done == []
    return found


def test_a_cluster_that_has_all_of_it_is_taken() -> None:
    assert said(cluster()) == []
    held = {"/api/v1/namespaces/x/pods/p": pod("p", "gpu", 1)}
    assert said({**cluster(), **held}) == []


def test_a_gpu_that_an_earlier_run_holds_comes_free() -> None:
    path = "/api/v1/namespaces/here/pods/p"
    assert said({**cluster(), path: pod("p", "gpu", 2, **OURS)}) == []
    (message,) = said({**cluster(), path: pod("p", "gpu", 2)})
    assert "No GPU is free for the pipeline" in message
    assert "gpu (2 of 2 GPUs are held)" in message


@pytest.mark.parametrize(
    ("gpu_node", "says"),
    [
        (node("gpu"), "no node hands GPUs out"),
        (node("gpu", "2", ready="False"), "gpu (down)"),
        (node("gpu", "2", unschedulable=True), "gpu (cordoned)"),
        (
            node("gpu", "2", {"key": "gpusmith.io/unvalidated", "effect": "NoSchedule"}),
            "gpu (taint gpusmith.io/unvalidated)",
        ),
    ],
)
def test_without_a_gpu_that_a_pod_could_get(gpu_node: dict[str, Any], says: str) -> None:
    (message,) = said({**cluster(), "/api/v1/nodes/gpu": gpu_node})
    assert says in message


def test_shares_of_gpus_are_no_whole_ones() -> None:
    shared = node("gpu", "", GPU_TAINT)
    shared["status"]["allocatable"] = {"nvidia.com/gpu.shared": "8"}
    (message,) = said({**cluster(), "/api/v1/nodes/gpu": shared})
    assert "gpu (hands out 'nvidia.com/gpu.shared')" in message


def test_simulated_gpus_are_asked_for_by_their_label() -> None:
    simulated = Pipeline("here", "image", "nfs", simulated=True)
    (message,) = said(cluster(), simulated)
    assert "gpu (no label gpusmith.io/simulated=true)" in message


def test_the_pod_without_gpu_needs_a_node_that_takes_it() -> None:
    control = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
    there = {**cluster(), "/api/v1/nodes/cpu": node("cpu", "", control)}
    (message,) = said(there)
    assert message.startswith("No node takes a pod that asks for no GPU: 'cpu (taint node-role")
    tolerated = ({"key": control["key"], "operator": "Exists"},)
    assert said(there, Pipeline("here", "image", "nfs", tolerations=tolerated)) == []
    another = ({"key": control["key"], "operator": "Equal", "value": "x"},)
    assert len(said(there, Pipeline("here", "image", "nfs", tolerations=another))) == 1
    # Not every taint keeps pods away.
    soft = {**cluster(), "/api/v1/nodes/cpu": node("cpu", "", {"key": "x", "effect": "PreferNoSchedule"})}
    assert said(soft) == []


def test_a_class_that_is_not_there() -> None:
    (message,) = said(cluster(), Pipeline("here", "image", "fast"))
    assert message.startswith("'gpu_pipeline_storage_class' names StorageClass 'fast', which there is not.")
    (message,) = said(cluster(), Pipeline("here", "image"))
    assert "needs a default StorageClass" in message
    claim = {
        f"{SPACE}/persistentvolumeclaims/pipeline-data": {
            "metadata": {"labels": OURS},
            "status": {"phase": "Bound"},
        }
    }
    space = {SPACE: {"metadata": {"labels": OURS}}}
    assert said({**cluster(), **space, **claim}, Pipeline("here", "image")) == []


def test_a_port_that_somebody_has() -> None:
    service = {
        "metadata": {"name": "web", "namespace": "x"},
        "spec": {"ports": [{"port": 80, "nodePort": 30002}]},
    }
    path = "/api/v1/namespaces/x/services/web"
    (message,) = said({**cluster(), path: service})
    assert message.startswith("Port 30002 of all nodes is that of Service 'x/web'.")
    service["metadata"] = {"name": "inference", "namespace": "here", "labels": OURS}
    assert said({**cluster(), path: service}) == []


def test_a_namespace_or_an_object_of_others_is_not_touched() -> None:
    (message,) = said({**cluster(), SPACE: {"metadata": {}}})
    assert message.startswith("Namespace 'here' is there, and is neither the pipeline's nor a team's.")
    team = {SPACE: {"metadata": {"labels": {"gpusmith.io/tenant": "here"}}}}
    assert said({**cluster(), **team}) == []
    theirs = {"/apis/batch/v1/namespaces/here/jobs/train": {"metadata": {"labels": {"app": "x"}}}}
    (message,) = said({**cluster(), **team, **theirs})
    assert message.startswith("Job 'here/train' is there, and the pipeline did not make it.")


def test_all_reasons_are_told_at_once() -> None:
    assert len(said({"/api/v1/nodes/gpu": node("gpu", "", GPU_TAINT), SPACE: {"metadata": {}}})) == 4


@pytest.mark.parametrize("phase", ["Bound", "Pending"])
def test_another_class_than_that_of_a_claim_that_is_there_is_refused(phase: str) -> None:
    claim = f"{SPACE}/persistentvolumeclaims/pipeline-data"
    there: dict[str, Any] = {
        SPACE: {"metadata": {"name": "here", "labels": OURS}},
        claim: {
            "metadata": {"labels": OURS},
            "spec": {"storageClassName": "old"},
            "status": {"phase": phase},
        },
    }
    (message,) = said(cluster(**there))
    assert "names StorageClass 'nfs', and claim 'here/pipeline-data' has 'old'" in message
    there[claim]["spec"]["storageClassName"] = "nfs"
    assert said(cluster(**there)) == []
