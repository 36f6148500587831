"""Labels and taints: ours come and go with the inventory, those of others stay."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.change.ledger import State as Step
from gpusmith.cluster import node_metadata
from gpusmith.cluster.api import ApiUnreachable
from gpusmith.cluster.node_metadata import State, Wanted, taint_patch
from gpusmith.errors import GpusmithError
from gpusmith.names import (
    CONDITION,
    GPU_RESOURCE,
    HOLD,
    LAYOUT_LABEL,
    OWNED_TAINTS,
    PREVIOUS_DRIVER,
    SENTINEL_LABEL,
    SHARE_RESOURCE,
    STAMP,
    UPGRADE,
)
from gpusmith.wanted.layouts import WHOLE, Layout, instances
from tests.unit.cluster.conftest import Memory
from tests.unit.ledgers import ledger

GPU = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
STARTUP = {"key": "gpusmith.io/unvalidated", "effect": "NoSchedule"}


def node(
    labels: dict[str, str], ours: list[str], taints: list[dict[str, Any]], owned: str = ""
) -> dict[str, Any]:
    applied: dict[str, Any] = {"f:metadata": {"f:labels": {f"f:{key}": {} for key in ours}}}
    return {
        "metadata": {
            "name": "gpu-1", "resourceVersion": "7", "labels": labels,
            "annotations": {OWNED_TAINTS: owned} if owned else {},
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
        "annotations": {OWNED_TAINTS: "nvidia.com/gpu:NoSchedule"},
    }


def test_taints_that_are_right_are_left_alone() -> None:
    there = node({}, [], [{**GPU, "timeAdded": "2026-11-21T10:00:00Z"}], "nvidia.com/gpu:NoSchedule")
    assert node_metadata.taint_patch(there, [GPU]) is None


def test_owned_taint_that_left_the_inventory_leaves_the_node_and_foreign_ones_stay() -> None:
    foreign = {"key": "team", "value": "a", "effect": "NoExecute"}
    patch = node_metadata.taint_patch(node({}, [], [foreign, GPU], "nvidia.com/gpu:NoSchedule"), [])
    assert patch is not None
    assert patch["spec"]["taints"] == [foreign]
    assert patch["metadata"]["annotations"] == {OWNED_TAINTS: None}


def test_machine_made_anew_gets_the_startup_taint_and_loses_the_old_stamp() -> None:
    there = node({}, [], [GPU], "nvidia.com/gpu:NoSchedule")
    there["metadata"]["annotations"][STAMP] = "{}"
    patch = node_metadata.taint_patch(there, [GPU], "gpusmith.io/unvalidated")
    assert patch is not None
    assert patch["spec"] == {"taints": [STARTUP, GPU]}
    assert patch["metadata"]["annotations"][STAMP] is None
    registered = node({}, [], [STARTUP, GPU], "nvidia.com/gpu:NoSchedule")
    assert node_metadata.taint_patch(registered, [GPU], "gpusmith.io/unvalidated") is None


@pytest.mark.parametrize(
    ("entry", "uncordoned"),
    [
        (ledger(), True),
        (ledger(cordoned=False), False),
        (ledger(state=Step.STUCK), True),
        (ledger(state=Step.DONE), False),
        ("{}", False),
    ],
)
def test_machine_made_anew_loses_the_upgrade_of_the_old_one(entry: str, uncordoned: bool) -> None:
    """Also the cordon that the upgrade set, and what a rollback would go by; a person's cordon and veto stay."""
    there = node({}, [], [STARTUP, GPU], "nvidia.com/gpu:NoSchedule")
    there["metadata"]["annotations"].update({UPGRADE: entry, PREVIOUS_DRIVER: "{}", HOLD: "Ann"})
    there["spec"]["unschedulable"] = True
    assert node_metadata.taint_patch(there, [GPU]) is None
    patch = node_metadata.taint_patch(there, [GPU], "gpusmith.io/unvalidated")
    assert patch is not None
    gone = {key for key, value in patch["metadata"]["annotations"].items() if value is None}
    assert gone == {UPGRADE, PREVIOUS_DRIVER}
    assert ("unschedulable" in patch["spec"]) is uncordoned
    assert patch["spec"].get("unschedulable") is None
    told = node_metadata.changes(there, Wanted(taints=[GPU], startup_taint="gpusmith.io/unvalidated"))
    assert ("node.kubernetes.io/unschedulable:NoSchedule is removed" in told.get("taints", [])) is uncordoned


@pytest.mark.parametrize(
    ("before", "state", "labels"),
    [
        ("true", Step.CHANGING, {SENTINEL_LABEL: "true"}),
        ("", Step.STUCK, {SENTINEL_LABEL: None}),
        (None, Step.CHANGING, None),
        # It has its value again; what it is now, somebody else has said.
        ("true", Step.DONE, None),
    ],
)
def test_nvsentinel_looks_after_a_machine_made_anew(
    before: str | None, state: Step, labels: dict[str, str | None] | None
) -> None:
    there = node({SENTINEL_LABEL: "false"}, [], [GPU], "nvidia.com/gpu:NoSchedule")
    there["metadata"]["annotations"][UPGRADE] = ledger(state=state, opted_out=before)
    patch = node_metadata.taint_patch(there, [GPU], "gpusmith.io/unvalidated")
    assert patch is not None
    assert patch["metadata"].get("labels") == labels


def test_changed_value_is_corrected() -> None:
    patch = node_metadata.taint_patch(
        node({}, [], [{**GPU, "value": "x"}], "nvidia.com/gpu:NoSchedule"), [GPU]
    )
    assert patch is not None
    assert patch["spec"]["taints"] == [GPU]


def cluster(ready: dict[str, bool], refuses: str = "") -> Memory:
    """Nodes by name; one of them may take no labels, for whatever reason."""
    memory = Memory({})
    for name, is_ready in ready.items():
        row = node({}, [], [])
        row["metadata"]["name"] = name
        message = "" if is_ready else "no pod network"
        row["status"] = {"conditions": [{"type": "Ready", "status": str(is_ready), "message": message}]}
        memory.objects[f"/api/v1/nodes/{name}"] = row
    memory.refusals["APPLY", f"/api/v1/nodes/{refuses}"] = [409]
    return memory


def made(memory: Memory, *names: str, check: bool = False, startup_taint: str = "") -> dict[str, State]:
    """What became of these nodes, with no time to wait."""
    wanted = {name: Wanted({"gpu-type": "t4"}, [GPU], startup_taint) for name in names}
    return node_metadata.make(memory.cluster, wanted, 0, check)


def patched(memory: Memory) -> set[str]:
    return {path.rpartition("/")[2] for _, path in memory.done}


def test_numbers_in_the_inventory_become_labels() -> None:
    assert Wanted.read({"labels": {"rack": 7}, "startup_taint": None}) == Wanted({"rack": "7"})


def test_ready_nodes_are_patched_beside_one_that_is_not_ready_and_one_that_is_missing() -> None:
    memory = cluster({"gpu-1": True, "gpu-2": False, "gpu-4": True, "other": True})
    nodes = made(memory, "gpu-1", "gpu-2", "gpu-3", "gpu-4")
    assert patched(memory) == {"gpu-1", "gpu-4"}
    assert nodes["gpu-1"].patched == ["labels", "taints"]
    assert nodes["gpu-1"].problem == nodes["gpu-4"].problem == ""
    assert nodes["gpu-2"].patched == []
    assert nodes["gpu-2"].problem == "not Ready after 0 s, last seen: no pod network"
    assert nodes["gpu-3"].problem == "not Ready after 0 s, last seen: the cluster has no such node"


def test_refused_patch_is_the_problem_of_that_node_alone() -> None:
    memory = cluster({"gpu-1": True, "gpu-2": True}, refuses="gpu-1")
    nodes = made(memory, "gpu-1", "gpu-2")
    assert patched(memory) == {"gpu-2"}
    assert nodes["gpu-2"].problem == ""
    assert nodes["gpu-1"].patched == []
    assert "refused" in nodes["gpu-1"].problem


def test_taints_of_a_node_that_changes_meanwhile_are_computed_anew() -> None:
    memory = cluster({"gpu-1": True})
    path = "/api/v1/nodes/gpu-1"
    memory.refusals["PATCH", path] = [409, 409]
    assert made(memory, "gpu-1")["gpu-1"].problem == ""
    assert memory.objects[path]["spec"]["taints"] == [GPU]
    again = cluster({"gpu-1": True})
    again.refusals["PATCH", path] = [409] * node_metadata.TRIES
    state = made(again, "gpu-1")["gpu-1"]
    assert state.patched == ["labels"]
    assert "refused" in state.problem


def test_cluster_that_does_not_answer_is_nobodys_problem_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*_words: Any, **_options: Any) -> None:
        raise ApiUnreachable("The API server does not answer.")

    monkeypatch.setattr(Memory, "apply", silent)
    with pytest.raises(ApiUnreachable):
        made(cluster({"gpu-1": True}), "gpu-1")


def test_startup_taint_does_not_wait_for_ready() -> None:
    # The next run finds the machine joined and would not ask for the taint again: the old stamp would hold for it.
    nodes = made(cluster({"gpu-1": False}), "gpu-1", startup_taint="gpusmith.io/unvalidated")
    assert "taints" in nodes["gpu-1"].patched
    assert "not Ready" in nodes["gpu-1"].problem


def test_check_mode_blames_nobody_for_not_being_there_yet() -> None:
    memory = cluster({"gpu-1": False})
    nodes = made(memory, "gpu-1", "gpu-2", check=True)
    assert memory.dry == {True}
    assert [state.problem for state in nodes.values()] == ["", ""]
    assert not nodes["gpu-2"].present


def test_what_differs_is_told_in_words() -> None:
    wanted = Wanted({"rack": "r2", "gpu-type": "t4"}, [GPU])
    there = node({"rack": "r1", "gpu-type": "t4", "old": "x"}, ["rack", "old"], [STARTUP], "gone:NoSchedule")
    there["spec"]["taints"].append({"key": "gone", "value": "v", "effect": "NoSchedule"})
    assert node_metadata.changes(there, wanted) == {
        "labels": ["rack=r2", "old is removed"],
        "taints": ["nvidia.com/gpu=present:NoSchedule", "gone:NoSchedule is removed"],
    }
    right = node({"rack": "r2", "gpu-type": "t4"}, ["rack", "gpu-type"], [GPU], "nvidia.com/gpu:NoSchedule")
    assert node_metadata.changes(right, wanted) == {}


def test_check_mode_tells_all_of_a_node_that_the_cluster_does_not_have() -> None:
    states = node_metadata.make(Memory({}).cluster, {"gpu-9": Wanted({"rack": "r2"}, [GPU])}, 0, check=True)
    assert states["gpu-9"].changes == {"labels": ["rack=r2"], "taints": ["nvidia.com/gpu=present:NoSchedule"]}


def test_a_node_that_stays_in_the_cluster_keeps_nothing_of_ours() -> None:
    there = node({"rack": "r1", "zone": "a"}, ["rack"], [GPU, STARTUP], "nvidia.com/gpu:NoSchedule")
    there["metadata"]["annotations"] |= {STAMP: "{}", "other": "stays"}
    there["status"] = {"conditions": [{"type": CONDITION, "status": "True"}]}
    memory = Memory({"/api/v1/nodes/gpu-1": there})
    told = node_metadata.release(memory.cluster, "gpu-1")
    assert told["labels"] == ["rack is removed"]
    assert told["taints"] == ["nvidia.com/gpu:NoSchedule is removed"]
    left = memory.objects["/api/v1/nodes/gpu-1"]
    assert CONDITION not in {row["type"] for row in left["status"]["conditions"]}
    assert f"condition '{CONDITION}' is removed" in told["more"]
    assert left["spec"]["taints"] == [STARTUP]
    assert {key: value for key, value in left["metadata"]["annotations"].items() if value} == {
        "other": "stays"
    }
    assert node_metadata.release(Memory({}).cluster, "gpu-1") == {}


def test_a_taint_that_an_adopted_node_had_stays_when_it_is_given_back() -> None:
    there = node({}, [], [GPU])
    memory = Memory({"/api/v1/nodes/gpu-1": there})
    more = {"key": "pool", "value": "a", "effect": "NoSchedule"}
    patch = taint_patch(there, [GPU, more], adopted=True)
    assert patch is not None
    assert patch["metadata"]["annotations"][OWNED_TAINTS] == "pool:NoSchedule"
    there["metadata"]["annotations"] = {OWNED_TAINTS: "pool:NoSchedule"}
    there["spec"]["taints"] = [GPU, more]
    assert taint_patch(there, [GPU, more], adopted=True) is None
    node_metadata.release(memory.cluster, "gpu-1")
    assert memory.objects["/api/v1/nodes/gpu-1"]["spec"]["taints"] == [GPU]
    # With a join of ours, the kubelet has registered with it for us.
    mine = taint_patch(node({}, [], [GPU]), [GPU])
    assert mine is not None
    assert mine["metadata"]["annotations"][OWNED_TAINTS] == "nvidia.com/gpu:NoSchedule"
    assert node_metadata.Wanted.read({"adopted": True}).adopted


# --- layouts ----------------------------------------------------------------------------------------------------------

SHARED, HALVES = Layout(4, SHARE_RESOURCE), instances("3g.40gb", 2)
BY_MPS = Layout(4, SHARE_RESOURCE, mps=True)
HOLDS = {
    "/api/v1/namespaces/team/pods/job": {
        "metadata": {"name": "job", "namespace": "team"},
        "spec": {"nodeName": "gpu-1", "containers": [{"resources": {"limits": {GPU_RESOURCE: "1"}}}]},
    }
}


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(
    ("now", "taints", "pods", "wanted", "label"),
    [
        ("", [STARTUP], {}, SHARED, "time-slicing-4"),
        ("", [], {}, SHARED, ""),
        ("", [STARTUP], HOLDS, SHARED, ""),
        ("time-slicing-4", [], {}, WHOLE, "time-slicing-4"),
        ("time-slicing-4", [STARTUP], {}, WHOLE, ""),
        ("time-slicing-4", [], {}, SHARED, "time-slicing-4"),
        ("by-hand", [STARTUP], {}, WHOLE, ""),
        ("by-hand", [], {}, WHOLE, "by-hand"),
        ("", [STARTUP], {}, HALVES, ""),
        ("mig-2x3g.40gb", [STARTUP], {}, WHOLE, "mig-2x3g.40gb"),
        # A new node may begin with MPS; what MPS leaves on the machine is taken away by the change alone.
        ("", [STARTUP], {}, BY_MPS, "mps-4"),
        ("mps-4", [STARTUP], {}, WHOLE, "mps-4"),
        ("mig-2x3g.40gb", [], {}, HALVES, "mig-2x3g.40gb"),
    ],
)
def test_gpus_are_divided_only_where_no_pod_can_hold_one(
    now: str, taints: list[Any], pods: dict[str, Any], wanted: Layout, label: str, check: bool
) -> None:
    there = node({LAYOUT_LABEL: now} if now else {}, [LAYOUT_LABEL] if now else [], taints)
    there["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
    memory = Memory({"/api/v1/nodes/gpu-1": there} | pods)
    state = node_metadata.make(memory.cluster, {"gpu-1": Wanted(layout=wanted)}, 0, check)["gpu-1"]
    assert not state.problem
    if not check:
        assert memory.objects["/api/v1/nodes/gpu-1"]["metadata"]["labels"].get(LAYOUT_LABEL, "") == label
    told = f"{LAYOUT_LABEL}={label}" if label else f"{LAYOUT_LABEL} is removed"
    assert state.changes.get("labels", []) == ([told] if now != label else [])
    kept = label != wanted.label
    assert bool(state.notes) is kept
    if kept:
        assert wanted.words in state.notes[0]
        assert "change_layout.yml" in state.notes[0]


def test_a_machine_made_anew_gets_its_layout_with_the_startup_taint() -> None:
    """The first run of it finds a Node object that is older, without the taint."""
    there = node({}, [], [])
    there["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
    memory = Memory({"/api/v1/nodes/gpu-1": there})
    wanted = Wanted(startup_taint="gpusmith.io/unvalidated", layout=SHARED)
    state = node_metadata.make(memory.cluster, {"gpu-1": wanted}, 0)["gpu-1"]
    assert (state.problem, state.notes) == ("", [])
    assert memory.objects["/api/v1/nodes/gpu-1"]["metadata"]["labels"] == {LAYOUT_LABEL: "time-slicing-4"}


def test_check_mode_tells_the_layout_of_a_node_that_is_to_come() -> None:
    state = node_metadata.make(Memory({}).cluster, {"gpu-1": Wanted(layout=SHARED)}, 0, True)["gpu-1"]
    assert state.changes == {"labels": [f"{LAYOUT_LABEL}=time-slicing-4"]}


def test_a_node_in_an_upgrade_is_not_released() -> None:
    there = node({}, [], [])
    there["metadata"]["annotations"] = {UPGRADE: ledger(state=Step.LOADED)}
    with pytest.raises(GpusmithError, match="Node 'gpu-1'"):
        node_metadata.release(Memory({"/api/v1/nodes/gpu-1": there}).cluster, "gpu-1")
