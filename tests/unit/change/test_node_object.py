"""Effects of an upgrade on a Node object: admission above all."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpusmith.change import ledger as ledgers
from gpusmith.change.budget import Rules
from gpusmith.change.ledger import Ledger, State
from gpusmith.change.node_object import NodeObject
from gpusmith.change.protocol import Halted
from gpusmith.cluster import leftovers
from gpusmith.cluster.api import CONFLICT, ApiRefused
from gpusmith.cluster.leftovers import Leftovers
from gpusmith.errors import GpusmithError
from gpusmith.names import (
    CONDITION,
    HOLD,
    MANAGER,
    OPERANDS_LABEL,
    OPERANDS_ON,
    OPERANDS_PAUSED,
    RUN_NAMESPACE,
    SENTINEL_LABEL,
)
from gpusmith.upgrade.hosts import STAMPED
from gpusmith.workloads import namespace
from tests.unit import objects
from tests.unit.cluster.conftest import Memory
from tests.unit.upgrade.nodes import node as node_object

NEW = "580.190.02"
ENTRY = Ledger("run-1", NEW, "580.178.04", State.ADMITTED, "2026-11-22T12:00:00Z", cordoned=True, gpus=4)


class Api:
    """Nodes and pods in memory."""

    def __init__(self, *names: str) -> None:
        self.nodes = {name: self._node(name) for name in names}
        self.pods: list[dict[str, Any]] = []
        self.evicted: list[str] = []
        self.refuses: ApiRefused | None = None
        self.claims: list[dict[str, Any]] = []

    @staticmethod
    def _node(name: str) -> dict[str, Any]:
        node = objects.node()
        own: dict[str, Any] = {f"f:{key}": {} for key in ("gpu-type", OPERANDS_LABEL)}
        node["metadata"].update(
            name=name,
            resourceVersion="1",
            annotations={},
            managedFields=[
                {"manager": MANAGER, "operation": "Apply", "fieldsV1": {"f:metadata": {"f:labels": own}}}
            ],
        )
        return node

    def get(self, path: str) -> dict[str, Any] | None:
        return copy.deepcopy(self.nodes.get(path.rpartition("/")[2]))

    def serves(self, version: str) -> bool:
        return True

    def items(self, path: str, _cut: Any = None, /, **query: str) -> list[dict[str, Any]]:
        if "resource.k8s.io" in path:
            return copy.deepcopy(self.claims if path.endswith("claims") else [])
        return copy.deepcopy(list(self.nodes.values()) if path.endswith("nodes") else self.pods)

    def patch(self, path: str, body: dict[str, Any], manager: str) -> None:
        assert manager == MANAGER
        if self.refuses:
            raise self.refuses
        node = self.nodes[path.rpartition("/")[2]]
        node["metadata"]["annotations"].update(body["metadata"]["annotations"])
        node["metadata"]["labels"].update(body["metadata"].get("labels", {}))
        node["spec"].update(body.get("spec", {}))

    def apply(self, path: str, body: dict[str, Any], manager: str) -> None:
        self.nodes[path.rpartition("/")[2]]["metadata"]["labels"].update(body["metadata"]["labels"])

    def evict(self, namespace: str, name: str) -> None:
        if self.refuses:
            raise self.refuses
        self.evicted.append(f"{namespace}/{name}")


class Fixed:
    """A clock."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


def made(api: Api, tmp_path: Path, name: str = "gpu-1", **other: Any) -> NodeObject:
    rules = Rules("run-1", NEW, canaries=0, soak_s=0)
    members = dict.fromkeys(api.nodes, 4)
    return NodeObject(api, name, rules, list(api.nodes), members, STAMPED, tmp_path, **other)  # type: ignore[arg-type]


def pod(name: str, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "team", "name": name, "labels": labels},
        "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
        "status": {"phase": "Running"},
    }


def test_admission_tells_nvsentinel_to_leave_the_node_alone(tmp_path: Path) -> None:
    api = Api("gpu-1")
    labels = api.nodes["gpu-1"]["metadata"]["labels"]
    labels["nvsentinel.dgxc.nvidia.com/driver.installed"] = "true"
    assert made(api, tmp_path).admit(ENTRY) == ""
    assert labels[SENTINEL_LABEL] == "false"
    assert ledgers.read(api.nodes["gpu-1"]) == replace(ENTRY, opted_out="")


@pytest.mark.parametrize("proved", [True, False])
def test_only_a_node_that_says_that_it_is_proved_takes_that_back(tmp_path: Path, proved: bool) -> None:
    rows = [{"type": CONDITION, "status": "True"}] if proved else []
    path = "/api/v1/nodes/gpu-1"
    memory = Memory({path: {"metadata": {"name": "gpu-1"}, "status": {"conditions": rows}}})
    replace(made(Api("gpu-1"), tmp_path), cluster=memory.cluster).unproved("It does not load.")
    said = [(row["status"], row["message"]) for row in memory.objects[path]["status"]["conditions"]]
    assert said == ([("False", "It does not load.")] if proved else [])


def test_admission_cordons_and_writes_the_ledger(tmp_path: Path) -> None:
    api = Api("gpu-1")
    assert made(api, tmp_path).admit(ENTRY) == ""
    assert api.nodes["gpu-1"]["spec"]["unschedulable"]
    assert ledgers.read(api.nodes["gpu-1"]) == ENTRY


@pytest.mark.parametrize("rollback", [False, True])
def test_a_rollback_goes_behind_the_cordon_of_somebody_else_and_leaves_it_his(
    tmp_path: Path, rollback: bool
) -> None:
    api = Api("gpu-1")
    api.nodes["gpu-1"]["spec"]["unschedulable"] = True
    node = made(api, tmp_path)
    node.rules = replace(node.rules, rollback=rollback)
    asked = replace(ENTRY, rollback=rollback)
    if not rollback:
        with pytest.raises(Halted, match="cordoned"):
            node.admit(asked)
        return
    assert node.admit(asked) == ""
    assert ledgers.read(api.nodes["gpu-1"]) == replace(asked, cordoned=False)
    assert api.nodes["gpu-1"]["spec"]["unschedulable"]


def test_two_of_one_budget_go_one_after_the_other(tmp_path: Path) -> None:
    api = Api("gpu-1", "gpu-2")
    assert made(api, tmp_path).admit(ENTRY) == ""
    why = made(api, tmp_path, "gpu-2").admit(ENTRY)
    assert "gpu-1" in why
    assert "unschedulable" not in api.nodes["gpu-2"]["spec"]


def test_a_look_at_the_admission_writes_nothing(tmp_path: Path) -> None:
    api = Api("gpu-1", "gpu-2")
    assert made(api, tmp_path).would_admit(ENTRY) == ""
    assert "unschedulable" not in api.nodes["gpu-1"]["spec"]
    assert ledgers.read(api.nodes["gpu-1"]) is None
    made(api, tmp_path).admit(ENTRY)
    assert "gpu-1" in made(api, tmp_path, "gpu-2").would_admit(ENTRY)


def test_an_answer_that_got_lost_is_no_second_admission(tmp_path: Path) -> None:
    api = Api("gpu-1")
    node = made(api, tmp_path)
    node.admit(ENTRY)
    api.refuses = ApiRefused("must not be patched again", "", 500)
    assert node.admit(ENTRY) == ""


def test_a_conflict_is_a_reason_to_look_again(tmp_path: Path) -> None:
    api = Api("gpu-1")
    api.refuses = ApiRefused("changed", "", CONFLICT)
    assert made(api, tmp_path).admit(ENTRY)
    api.refuses = ApiRefused("forbidden", "", 403)
    with pytest.raises(ApiRefused):
        made(api, tmp_path).admit(ENTRY)


@pytest.mark.parametrize("kind", ["labels", "annotations"])
def test_a_hold_keeps_a_node(tmp_path: Path, kind: str) -> None:
    api = Api("gpu-1")
    api.nodes["gpu-1"]["metadata"][kind][HOLD] = ""
    with pytest.raises(Halted, match=HOLD):
        made(api, tmp_path).admit(ENTRY)


def test_a_node_that_somebody_cordoned_is_theirs(tmp_path: Path) -> None:
    api = Api("gpu-1")
    api.nodes["gpu-1"]["spec"]["unschedulable"] = True
    with pytest.raises(Halted, match="cordoned"):
        made(api, tmp_path).admit(ENTRY)
    assert ledgers.read(api.nodes["gpu-1"]) is None


def test_what_nobody_of_the_run_will_change_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    api, clock = Api("gpu-1", "gpu-2"), Fixed()
    api.nodes["gpu-2"]["spec"]["unschedulable"] = True
    node = made(api, tmp_path, idle_s=60, clock=clock)
    assert "gpu-2" in node.admit(ENTRY)
    clock.time = 59
    assert node.admit(ENTRY)
    clock.time = 61
    with pytest.raises(Halted, match="gpu-2"):
        node.admit(ENTRY)


def test_a_node_that_ended_in_the_middle_is_not_waited_for(tmp_path: Path) -> None:
    api, clock = Api("gpu-1", "gpu-2"), Fixed()
    stuck = made(api, tmp_path, "gpu-2")
    stuck.admit(ENTRY)
    stuck.end()
    node = made(api, tmp_path, idle_s=600, clock=clock)
    assert node.admit(ENTRY)
    clock.time = node.rules.soak_s + 1
    with pytest.raises(Halted, match="'gpu-2' did not come to an end"):
        node.admit(ENTRY)


@pytest.mark.parametrize("changes", [{"ready": False}, {"allocatable": 3}])
def test_a_node_that_broke_while_it_waited_is_not_begun(tmp_path: Path, changes: dict[str, Any]) -> None:
    api = Api("gpu-1")
    api.nodes["gpu-1"] = node_object("gpu-1", **changes)
    with pytest.raises(Halted, match="out meanwhile"):
        made(api, tmp_path).admit(ENTRY)
    assert made(api, tmp_path).admit(replace(ENTRY, rollback=True)) == ""


def test_a_node_of_the_run_that_is_on_its_way_is_waited_for(tmp_path: Path) -> None:
    api, clock = Api("gpu-1", "gpu-2"), Fixed()
    made(api, tmp_path, "gpu-2").admit(ENTRY)
    node = made(api, tmp_path, idle_s=60, clock=clock)
    for clock.time in (0, 1000, 2000):
        assert node.admit(ENTRY)


def test_pods_are_evicted_only_by_their_labels(tmp_path: Path) -> None:
    api = Api("gpu-1")
    api.pods = [pod("batch", kind="batch", team="a"), pod("service", kind="service")]
    assert made(api, tmp_path).holders() == ["'team/batch'", "'team/service'"]
    assert api.evicted == []
    node = made(api, tmp_path, evict={"kind": "batch"})
    # The other one keeps the node anyhow.
    assert node.holders() == ["'team/batch'", "'team/service'"]
    assert api.evicted == []
    api.pods.pop()
    assert node.holders() == ["'team/batch' (asked to end)"]
    assert api.evicted == ["team/batch"]


def test_a_disruption_budget_is_respected(tmp_path: Path) -> None:
    api = Api("gpu-1")
    api.pods = [pod("batch", kind="batch")]
    api.refuses = ApiRefused("The disruption budget needs 1 healthy pod.", "", 429)
    assert "disruption budget" in made(api, tmp_path, evict={"kind": "batch"}).holders()[0]


def test_pods_that_a_killed_run_of_the_suite_left_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api, removed = Api("gpu-1"), []
    dead = f"{RUN_NAMESPACE}1122-abc"
    monkeypatch.setattr(leftovers, "find", lambda *_: Leftovers((dead,), ()))
    monkeypatch.setattr(namespace, "remove", lambda _, name: removed.append(name))
    api.pods = [pod("job")]
    made(api, tmp_path).holders()
    assert removed == []
    api.pods[0]["metadata"]["namespace"] = dead
    assert made(api, tmp_path).holders()
    assert removed == [dead]


def test_operands_follow_a_label_that_only_we_own(tmp_path: Path) -> None:
    api = Api("gpu-1")
    node = made(api, tmp_path)
    node.operands(OPERANDS_PAUSED)
    assert api.nodes["gpu-1"]["metadata"]["labels"][OPERANDS_LABEL] == OPERANDS_PAUSED
    node.operands(OPERANDS_ON)
    assert api.nodes["gpu-1"]["metadata"]["labels"][OPERANDS_LABEL] == OPERANDS_ON
    api.nodes["gpu-1"]["metadata"]["managedFields"] = []
    with pytest.raises(GpusmithError, match="not ours"):
        node.operands(OPERANDS_PAUSED)


def test_pods_of_operands_are_those_that_ask_for_the_label(tmp_path: Path) -> None:
    api = Api("gpu-1")
    plugin = {**pod("plugin"), "spec": {"nodeSelector": {OPERANDS_LABEL: OPERANDS_ON}}}
    api.pods = [plugin, pod("job")]
    assert made(api, tmp_path).operand_pods() == ["'team/plugin'"]


def test_a_pod_that_holds_a_gpu_by_a_claim_is_waited_for(tmp_path: Path) -> None:
    api = Api("gpu-1")
    row = pod("train")
    row["spec"] = {"containers": [{}], "resourceClaims": [{"name": "gpu", "resourceClaimName": "one"}]}
    api.pods, api.claims = [row], [objects.resource_claim("one", "gpu-0")]
    (words,) = made(api, tmp_path).holders()
    assert words == "'team/train' (by ResourceClaim 'one', device 'gpu-0' of driver 'gpu.nvidia.com')"
    api.claims = [objects.resource_claim("one")]
    assert made(api, tmp_path).holders() == []
