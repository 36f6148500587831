"""What each team gets, as objects of Kubernetes."""

from __future__ import annotations

from typing import Any

from gpusmith.tenants.objects import Tenants

GPU, SHARE, HALF = "nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-3g.40gb"


def hard(tenants: Tenants) -> dict[str, Any]:
    return {
        f"{row['metadata']['namespace']}/{row['metadata']['name']}": row["spec"]["hard"]
        for row in tenants.quotas
    }


def test_what_a_team_is_not_given_it_has_none_of() -> None:
    found = Tenants({"a": {"gpus": 8, "pods": 50}, "b": {"resources": {SHARE: 4}}}, {}, (HALF,))
    assert hard(found) == {
        "a/gpusmith-gpus": {
            f"requests.{GPU}": "8", f"requests.{SHARE}": "0", f"requests.{HALF}": "0", "pods": "50"
        },
        "b/gpusmith-gpus": {f"requests.{GPU}": "0", f"requests.{SHARE}": "4", f"requests.{HALF}": "0"},
    }  # fmt: skip


def test_claims_have_a_key_of_their_own() -> None:
    (quota,) = hard(Tenants({"a": {"resources": {"gpu.nvidia.com": 2}}})).values()
    assert quota["gpu.nvidia.com.deviceclass.resource.k8s.io/devices"] == "2"
    assert not [key for key in quota if key.startswith("requests.gpu.")]


def test_a_class_that_a_team_leaves_out_gives_it_no_gpu() -> None:
    classes = {"high": {"value": 10}, "low": {"value": -10}}
    found = Tenants({"a": {"gpus": 8, "gpus_of_class": {"low": 8, "theirs": 1}}, "b": {"gpus": 1}}, classes)
    of_class = {name: row for name, row in hard(found).items() if name.count("-") > 1}
    assert of_class == {
        f"a/gpusmith-gpus-{name}": {f"requests.{GPU}": count}
        for name, count in (("high", "0"), ("low", "8"), ("theirs", "1"))
    }
    (quota,) = [row for row in found.quotas if row["metadata"]["name"] == "gpusmith-gpus-high"]
    assert quota["spec"]["scopeSelector"]["matchExpressions"] == [
        {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
    ]


def test_pods_of_a_team_are_baseline_and_its_members_may_not_change_its_quota() -> None:
    members = [{"kind": "Group", "name": "g"}, {"kind": "ServiceAccount", "name": "s"}]
    objects = {row["kind"]: row for row in Tenants({"a": {"members": members}}).objects}
    assert objects["Namespace"]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "baseline"
    binding = objects["RoleBinding"]
    assert (binding["metadata"]["namespace"], binding["roleRef"]["name"]) == ("a", "edit")
    assert [(row["name"], row.get("namespace")) for row in binding["subjects"]] == [("g", None), ("s", "a")]


def test_nobodys_pods_are_ended_unless_a_class_says_so() -> None:
    classes = {"high": {"value": 10, "preempts": True}, "low": {"value": -10, "default": True}}
    high, low = Tenants({}, classes).objects
    assert (high["preemptionPolicy"], high["globalDefault"]) == ("PreemptLowerPriority", False)
    assert (low["preemptionPolicy"], low["globalDefault"], low["value"]) == ("Never", True, -10)


def test_with_a_quota_of_cpu_a_pod_that_asks_for_none_asks_for_some() -> None:
    found = Tenants(
        {"a": {"gpus": 1, "cpu": 64, "memory": "512Gi"}, "b": {"memory": "1Gi"}, "c": {"gpus": 1}}
    )
    assert {
        name: {key: row[key] for key in row if key.split(".")[1] in ("cpu", "memory")}
        for name, row in hard(found).items()
    } == {
        "a/gpusmith-gpus": {"requests.cpu": "64", "requests.memory": "512Gi"},
        "b/gpusmith-gpus": {"requests.memory": "1Gi"},
        "c/gpusmith-gpus": {},
    }
    ranges = [row for row in found.objects if row["kind"] == "LimitRange"]
    (limits,), (other,) = (row["spec"]["limits"] for row in ranges)
    assert set(limits) == {"type", "defaultRequest"}, "a limit would end work that needs more"
    assert set(limits["defaultRequest"]) == {"cpu", "memory"}
    assert set(other["defaultRequest"]) == {"memory"}


def test_an_isolated_team_is_reached_by_its_own_pods_alone() -> None:
    found = Tenants({"a": {"network": "isolated"}, "b": {"network": "open"}, "c": {}})
    (policy,) = [row for row in found.objects if row["kind"] == "NetworkPolicy"]
    assert policy["metadata"]["namespace"] == "a"
    assert policy["spec"]["ingress"] == [{"from": [{"podSelector": {}}]}]
    assert policy["spec"]["podSelector"] == {}


def test_idle_gpus_of_a_team_are_taken_back_only_where_it_says_so() -> None:
    yes, no = Tenants({"a": {"reclaim": True}, "b": {"reclaim": False}}).objects[:2]
    assert yes["metadata"]["labels"]["gpusmith.io/reclaim"] == "allowed"
    assert "gpusmith.io/reclaim" not in no["metadata"]["labels"]
