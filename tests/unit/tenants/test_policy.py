"""What the policy is about: which pods, where. What it makes of them, the API server says: trial.CASES, which the lab runs."""

from __future__ import annotations

from typing import Any

from gpusmith.tenants.objects import Tenants
from gpusmith.tenants.policy import Policy

TEAMS = {"a": {"gpus_per_pod": 4}, "b": {}}


def variables(spec: dict[str, Any]) -> dict[str, str]:
    return {row["name"]: row["expression"] for row in spec["variables"]}


def test_it_judges_pods_that_are_made_and_containers_that_are_added() -> None:
    rules = Policy("deny").spec["matchConstraints"]["resourceRules"]
    assert [(row["operations"], row["resources"]) for row in rules] == [
        (["CREATE"], ["pods"]),
        (["UPDATE"], ["pods/ephemeralcontainers"]),
    ]


def test_namespaces_of_the_site_of_the_suite_and_of_trials_are_exempt() -> None:
    selector = Policy("deny", ("web", "gpusmith-system")).spec["matchConstraints"]["namespaceSelector"]
    assert [(row["operator"], row.get("values")) for row in selector["matchExpressions"]] == [
        ("NotIn", ["gpusmith-system", "kube-system", "web"]),
        ("NotIn", ["validation"]),
        ("DoesNotExist", None),
    ]


def test_a_trial_judges_pods_with_its_mark_alone() -> None:
    constraints = Policy("deny", trial="x").spec["matchConstraints"]
    assert constraints["objectSelector"] == {"matchLabels": {"gpusmith.io/trial": "x"}}
    assert len(constraints["namespaceSelector"]["matchExpressions"]) == 2
    assert Policy("deny").spec["matchConstraints"]["objectSelector"] == {}


def test_teams_have_their_limits_and_no_daemon_sets() -> None:
    policy, binding = Tenants(TEAMS, mode="deny").policies
    assert variables(policy["spec"])["most"] == '{"a": 4}[?request.namespace].orValue(-1)'
    (condition,) = policy["spec"]["matchConditions"]
    assert condition["expression"].startswith('request.namespace in ["a", "b"] ||')
    assert binding["spec"] == {"policyName": "gpusmith-gpu-nodes", "validationActions": ["Deny", "Audit"]}


def test_warn_refuses_nothing_and_none_binds_nothing() -> None:
    assert Tenants(TEAMS, mode="warn").policies[1]["spec"]["validationActions"] == ["Warn", "Audit"]
    assert Tenants(TEAMS).policies == []
