"""Labels and taints: ours come and go with the inventory, those of others stay."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils.cluster import ClusterError, ClusterRefusedError
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


class Api:
    """A cluster in memory that remembers what was patched; 'refuses' are nodes whose patches it does not take."""

    def __init__(self, ready: dict[str, bool], refuses: frozenset[str] = frozenset()) -> None:
        self.rows = {}
        for name, is_ready in ready.items():
            row = node({}, [], [])
            row["metadata"]["name"] = name
            condition = {
                "type": "Ready",
                "status": str(is_ready),
                "message": "" if is_ready else "no pod network",
            }
            row["status"] = {"conditions": [condition]}
            self.rows[name] = row
        self.refuses = refuses
        self.patched: list[str] = []
        self.dry: set[bool] = set()

    def nodes(self) -> list[dict[str, Any]]:
        return list(self.rows.values())

    def node(self, name: str) -> dict[str, Any] | None:
        return self.rows.get(name)

    def patch(
        self, name: str, body: dict[str, Any], *_type: str, dry_run: bool, query: dict[str, Any]
    ) -> None:
        if name in self.refuses:
            raise ClusterRefusedError(f"The API server refused to change node '{name}': 409 Conflict.")
        assert body
        assert query["fieldManager"] == node_metadata.MANAGER
        self.patched.append(name)
        self.dry.add(dry_run)


def work(api: Any, *names: str, check: bool = False, **more: Any) -> dict[str, dict[str, Any]]:
    """What the module returns for these nodes, with no time to wait."""
    wanted = {name: {"labels": {"gpu-type": "t4"}, "taints": [GPU], **more} for name in names}
    nodes: dict[str, dict[str, Any]] = node_metadata.Work(api, wanted, check).run(0)
    return nodes


def test_ready_nodes_are_patched_beside_one_that_is_not_ready_and_one_that_is_missing() -> None:
    api = Api({"gpu-1": True, "gpu-2": False, "gpu-4": True, "other": True})
    nodes = work(api, "gpu-1", "gpu-2", "gpu-3", "gpu-4")
    assert set(api.patched) == {"gpu-1", "gpu-4"}
    assert nodes["gpu-1"]["patched"] == ["labels", "taints"]
    assert nodes["gpu-1"]["problem"] == nodes["gpu-4"]["problem"] == ""
    assert nodes["gpu-2"]["patched"] == []
    assert nodes["gpu-2"]["problem"] == "not Ready after 0 s, last seen: no pod network"
    assert nodes["gpu-3"]["problem"] == "not Ready after 0 s, last seen: the cluster has no such node"


def test_refused_patch_is_the_problem_of_that_node_alone() -> None:
    api = Api({"gpu-1": True, "gpu-2": True}, frozenset({"gpu-1"}))
    nodes = work(api, "gpu-1", "gpu-2")
    assert set(api.patched) == {"gpu-2"}
    assert nodes["gpu-2"]["problem"] == ""
    assert nodes["gpu-1"]["patched"] == []
    assert "409 Conflict" in nodes["gpu-1"]["problem"]


def test_cluster_that_does_not_answer_is_nobodys_problem_alone() -> None:
    class Silent(Api):
        def patch(self, *_words: Any, **_options: Any) -> None:
            raise ClusterError("The API server did not answer.")

    with pytest.raises(ClusterError):
        work(Silent({"gpu-1": True}), "gpu-1")


def test_startup_taint_does_not_wait_for_ready() -> None:
    # The next run finds the machine joined and would not ask for the taint again: the old stamp would hold for it.
    api = Api({"gpu-1": False})
    nodes = work(api, "gpu-1", startup_taint="gpusmith.io/unvalidated")
    assert "taints" in nodes["gpu-1"]["patched"]
    assert "not Ready" in nodes["gpu-1"]["problem"]


def test_check_mode_blames_nobody_for_not_being_there_yet() -> None:
    api = Api({"gpu-1": False})
    nodes = work(api, "gpu-1", "gpu-2", check=True)
    assert api.dry == {True}
    assert [entry["problem"] for entry in nodes.values()] == ["", ""]
    assert not nodes["gpu-2"]["present"]
