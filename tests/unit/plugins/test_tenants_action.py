"""What the inventory lets teams have comes, changes and goes; what is somebody else's is not taken over."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from gpusmith.errors import GpusmithError
from gpusmith.tenants import trial
from gpusmith.tenants.trial import Judged
from tests.unit.cluster.conftest import Memory
from tests.unit.plugins.test_operands_actions import act

QUOTAS = "/api/v1/namespaces/a/resourcequotas"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
HIGH = {"high": {"value": 10}}
TEAM = {"a": {"gpus": 8, "members": [{"kind": "Group", "name": "g"}], "gpus_of_class": {"high": 1}}}


def run(
    memory: Memory,
    monkeypatch: pytest.MonkeyPatch,
    teams: dict[str, Any],
    classes: dict[str, Any],
    check: bool = False,
    state: str = "present",
    policy: str = "none",
) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "teams": teams,
        "classes": classes,
        "offered": [],
        "policy": policy,
        "exempt": [],
        "timeout": 1.0,
        "state": state,
    }
    return act("tenants", memory, monkeypatch, check, **asked)


def nodes(gpus: int) -> dict[str, dict[str, Any]]:
    """A node with GPUs, by its path."""
    status = {"allocatable": {"cpu": "4", "nvidia.com/gpu": str(gpus)}}
    return {"/api/v1/nodes/gpu-1": {"metadata": {"name": "gpu-1"}, "status": status}}


def test_a_team_comes_changes_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory({})
    assert run(memory, monkeypatch, TEAM, HIGH, check=True)["changed"]
    assert memory.objects == {}
    assert run(memory, monkeypatch, TEAM, HIGH)["changed"]
    assert set(memory.objects) == {
        f"{CLASSES}/high",
        "/api/v1/namespaces/a", f"{QUOTAS}/gpusmith-gpus", f"{QUOTAS}/gpusmith-gpus-high",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/a/rolebindings/gpusmith-members",
    }  # fmt: skip
    for check in (True, False):
        assert not run(memory, monkeypatch, TEAM, HIGH, check)["changed"]
    changed = run(memory, monkeypatch, {"a": {"gpus": 4}}, HIGH)
    assert sorted(changed["objects"]) == [
        "ResourceQuota 'a/gpusmith-gpus'",
        "ResourceQuota 'a/gpusmith-gpus-high'",
        "RoleBinding 'a/gpusmith-members'",
    ]
    gone = run(memory, monkeypatch, TEAM, HIGH, state="absent")
    assert set(memory.objects) == {"/api/v1/namespaces/a", f"{CLASSES}/high"}
    assert [words.partition(" stays")[0] for words in gone["warnings"]] == [
        "Namespace 'a'",
        "PriorityClass 'high'",
    ]
    assert not run(memory, monkeypatch, TEAM, HIGH, state="absent")["changed"]


@pytest.mark.parametrize(
    ("there", "teams", "classes", "says"),
    [
        (
            {"/api/v1/namespaces/a": {}},
            {"a": {"gpus": 1}},
            {},
            "Namespace 'a' is there, and gpusmith did not",
        ),
        ({f"{CLASSES}/high": {"value": 10}}, {}, HIGH, "PriorityClass 'high' is there, and gpusmith did not"),
        (
            {f"{CLASSES}/high": {"value": 9, "labels": {"gpusmith.io/tenant": "all"}}},
            {},
            HIGH,
            "has the value 9, not 10, which cannot be changed",
        ),
        (
            {f"{CLASSES}/high": {"value": 10, "labels": {"gpusmith.io/tenant": "all"}}},
            {},
            HIGH,
            "does end pods of less priority, which cannot be changed",
        ),
        (
            {
                f"{CLASSES}/high": {
                    "value": 10,
                    "preemptionPolicy": "Never",
                    "labels": {"gpusmith.io/tenant": "all"},
                }
            },
            {},
            {"high": {"value": 10, "preempts": True}},
            "does not end pods of less priority, which cannot be changed",
        ),
        (
            {},
            {"a": {"gpus": 1, "gpus_of_class": {"hihg": 1}}},
            HIGH,
            "neither the inventory nor the cluster has",
        ),
    ],
)
def test_nothing_is_taken_over(
    there: dict[str, Any],
    teams: dict[str, Any],
    classes: dict[str, Any],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = {
        path: {**row, "metadata": {"name": path.rpartition("/")[2], "labels": row.pop("labels", {"x": "y"})}}
        for path, row in there.items()
    }
    memory = Memory(found)
    with pytest.raises(GpusmithError, match=says):
        run(memory, monkeypatch, teams, classes)
    assert memory.done == []


def test_a_namespace_is_adopted_where_the_inventory_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory({"/api/v1/namespaces/a": {"metadata": {"name": "a", "labels": {"x": "y"}}}})
    assert run(memory, monkeypatch, {"a": {"gpus": 1, "adopt": True}}, {})["changed"]
    assert f"{QUOTAS}/gpusmith-gpus" in memory.objects


@pytest.mark.parametrize(("gpus", "told"), [(8, False), (7, True)])
def test_more_gpus_than_there_are_is_told(gpus: int, told: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory(nodes(gpus))
    for check in (True, False):
        done = run(memory, monkeypatch, {"a": {"gpus": 5}, "b": {"gpus": 3}}, {}, check)
        said = [words.partition(":")[0] for words in done.get("warnings", ())]
        assert said == [f"Teams may hold 8 'nvidia.com/gpu' together, and the nodes offer {gpus}"] * told


def test_an_inventory_without_teams_takes_none_away(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory({})
    assert not run(memory, monkeypatch, {}, {})["changed"]
    run(memory, monkeypatch, TEAM, HIGH)
    memory.done.clear()
    with pytest.raises(GpusmithError, match="has no 'gpu_tenants_teams', and the cluster has quotas of 'a'"):
        run(memory, monkeypatch, {}, HIGH)
    assert memory.done == []


def test_the_policy_comes_when_it_is_judged_and_goes_with_the_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trial, "judge", lambda *_: Judged({"Pod 'web/p'": "no GPU."}))
    memory = Memory(nodes(8))
    with pytest.raises(GpusmithError, match="was not bound"):
        run(memory, monkeypatch, TEAM, HIGH, policy="deny")
    assert memory.done == []
    warned = run(memory, monkeypatch, TEAM, HIGH, policy="warn")
    assert warned["warnings"] == ["Policy 'gpusmith-gpu-nodes' would refuse Pod 'web/p': no GPU."]
    assert not run(memory, monkeypatch, TEAM, HIGH, policy="warn")["changed"]
    monkeypatch.setattr(trial, "judge", lambda *_: Judged())
    assert run(memory, monkeypatch, TEAM, HIGH, policy="deny")["objects"] == [
        "ValidatingAdmissionPolicyBinding 'gpusmith-gpu-nodes'"
    ]
    gone = run(memory, monkeypatch, TEAM, HIGH)
    assert gone["objects"] == [
        "ValidatingAdmissionPolicyBinding 'gpusmith-gpu-nodes'",
        "ValidatingAdmissionPolicy 'gpusmith-gpu-nodes'",
    ]
    run(memory, monkeypatch, TEAM, HIGH, policy="deny")
    run(memory, monkeypatch, {}, {}, state="absent")
    assert not [path for path in memory.objects if "admission" in path]


def test_what_is_proved_changes_nothing_and_asks_nothing_in_check_mode(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = importlib.import_module("ansible_collections.gpusmith.gpu.plugins.action.tenants")
    monkeypatch.setattr(module, "prove", lambda _, wanted: [f"not sure of {list(wanted.teams)}"])
    memory = Memory({})
    assert run(memory, monkeypatch, TEAM, {}, state="proved") == {
        "changed": False,
        "warnings": ["not sure of ['a']"],
    }
    assert run(memory, monkeypatch, TEAM, {}, check=True, state="proved") == {"changed": False}
    assert memory.done == []
