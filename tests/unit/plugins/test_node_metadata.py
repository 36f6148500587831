"""Labels and taints: ours come and go with the inventory, those of others stay."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpusmith.gpu.plugins.modules import node_metadata

GPU = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
STARTUP = {"key": "gpusmith.io/unvalidated", "effect": "NoSchedule"}


def node(
    labels: dict[str, str], ours: list[str], taints: list[dict[str, Any]], owned: str = ""
) -> dict[str, Any]:
    applied: dict[str, Any] = {"f:metadata": {"f:labels": {f"f:{key}": {} for key in ours}}}
    return {
        "metadata": {
            "name": "gpu-1", "resourceVersion": "7", "labels": labels,
            "annotations": {node_metadata.OWNED_TAINTS: owned} if owned else {},
            "managedFields": [
                {"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:metadata": {"f:labels": {"f:zone": {}}}}},
                {"manager": "gpusmith", "operation": "Apply", "fieldsV1": applied},
            ],
        },
        "spec": {"taints": taints},
    }  # fmt: skip


def test_labels_that_are_right_are_left_alone() -> None:
    assert (
        node_metadata.label_patch(node({"gpu-type": "t4", "zone": "a"}, ["gpu-type"], []), {"gpu-type": "t4"})
        is None
    )


def test_label_that_left_the_inventory_is_dropped_by_the_apply() -> None:
    patch = node_metadata.label_patch(
        node({"gpu-type": "t4", "rack": "r1"}, ["gpu-type", "rack"], []), {"gpu-type": "t4"}
    )
    assert patch is not None
    assert patch["metadata"]["labels"] == {"gpu-type": "t4"}


def test_label_with_the_right_value_but_another_owner_is_taken_over() -> None:
    assert node_metadata.label_patch(node({"gpu-type": "t4"}, [], []), {"gpu-type": "t4"}) is not None


def test_taint_is_added_beside_the_startup_taint() -> None:
    patch = node_metadata.taint_patch(node({}, [], [STARTUP]), [GPU])
    assert patch is not None
    assert patch["spec"]["taints"] == [STARTUP, GPU]
    assert patch["metadata"] == {
        "resourceVersion": "7",
        "annotations": {node_metadata.OWNED_TAINTS: "nvidia.com/gpu:NoSchedule"},
    }


def test_taints_that_are_right_are_left_alone() -> None:
    there = node({}, [], [{**GPU, "timeAdded": "2026-11-21T10:00:00Z"}], "nvidia.com/gpu:NoSchedule")
    assert node_metadata.taint_patch(there, [GPU]) is None


def test_owned_taint_that_left_the_inventory_leaves_the_node_and_foreign_ones_stay() -> None:
    foreign = {"key": "team", "value": "a", "effect": "NoExecute"}
    patch = node_metadata.taint_patch(node({}, [], [foreign, GPU], "nvidia.com/gpu:NoSchedule"), [])
    assert patch is not None
    assert patch["spec"]["taints"] == [foreign]
    assert patch["metadata"]["annotations"] == {node_metadata.OWNED_TAINTS: None}


def test_machine_made_anew_gets_the_startup_taint_and_loses_the_old_stamp() -> None:
    there = node({}, [], [GPU], "nvidia.com/gpu:NoSchedule")
    patch = node_metadata.taint_patch(there, [GPU], "gpusmith.io/unvalidated")
    assert patch is not None
    assert patch["spec"]["taints"] == [STARTUP, GPU]
    assert patch["metadata"]["annotations"][node_metadata.STAMP] is None
    registered = node({}, [], [STARTUP, GPU], "nvidia.com/gpu:NoSchedule")
    assert node_metadata.taint_patch(registered, [GPU], "gpusmith.io/unvalidated") is None


def test_changed_value_is_corrected() -> None:
    patch = node_metadata.taint_patch(
        node({}, [], [{**GPU, "value": "x"}], "nvidia.com/gpu:NoSchedule"), [GPU]
    )
    assert patch is not None
    assert patch["spec"]["taints"] == [GPU]


def test_readiness() -> None:
    assert node_metadata.readiness(None) == (False, "the cluster has no such node")
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    assert node_metadata.readiness(ready) == (True, "Ready")
