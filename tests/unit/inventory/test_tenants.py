"""What teams and PriorityClasses of an inventory may be."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.inventory import tenants
from gpusmith.inventory.rules import RULES

GOOD_TEAM = {
    "gpus": 8, "resources": {"nvidia.com/gpu.shared": 4}, "gpus_of_class": {"high": 1}, "gpus_per_pod": 4, "pods": 50,
    "cpu": 64, "memory": "512Gi", "network": "isolated",
    "members": [{"kind": "Group", "name": "g"}], "pod_security": "restricted", "adopt": True,
}  # fmt: skip


def says(name: str, value: Any) -> list[str]:
    return [refusal.message for refusal in RULES[name](name, value)]


def test_good_ones_are_taken() -> None:
    assert says(tenants.TEAMS, {"team-a": GOOD_TEAM, "team-b": {}, "team-c": {"gpus": "{{ n }}"}}) == []
    assert (
        says(
            tenants.CLASSES, {"high": {"value": 10, "preempts": True, "default": True}, "low": {"value": -1}}
        )
        == []
    )


@pytest.mark.parametrize(
    ("team", "words"),
    [
        ({"gpu": 8}, "has no key 'gpu'"),
        ({"gpus": -1}, "'gpu_tenants_teams.a.gpus' must be a whole number from 0, not -1"),
        ({"gpus_per_pod": "4"}, "gpus_per_pod' must be a whole number from 0, not '4'"),
        ({"gpus": "8"}, "must be a whole number from 0, not '8'"),
        ({"gpus": None}, "must be a whole number from 0, not None"),
        ({"resources": {"requests.nvidia.com/gpu": 1}}, "whose keys are resources such as"),
        ({"resources": {"nvidia.com/gpu.shared": -1}}, "must be a whole number from 0"),
        ({"resources": ["nvidia.com/gpu"]}, "a mapping of resources"),
        ({"gpus_of_class": {"High": 1}}, "whose keys are names of PriorityClasses"),
        ({"members": ["ada"]}, "members[0]' must be a mapping with 'kind'"),
        ({"members": [{"kind": "Team", "name": "x"}]}, "members[0]' must be"),
        ({"members": {"kind": "User", "name": "x"}}, "must be a list such as"),
        ({"pod_security": "none"}, "must be 'privileged', 'baseline' or 'restricted'"),
        ({"cpu": "64 cores"}, "must be an amount above 0, such as 64 or 512Gi"),
        ({"memory": 0}, "must be an amount above 0"),
        ({"memory": "-1Gi"}, "must be an amount above 0"),
        ({"cpu": True}, "must be an amount above 0"),
        ({"network": "closed"}, "must be 'open' or 'isolated'"),
        ({"adopt": "yes"}, "must be true or false"),
        (8, "must be a mapping with some of"),
    ],
)
def test_a_team_that_is_not_one_is_refused(team: Any, words: str) -> None:
    (message,) = says(tenants.TEAMS, {"a": team})
    assert words in message


@pytest.mark.parametrize("name", ["kube-system", "default", "gpusmith-system", "Team", "a_b", 7])
def test_a_namespace_that_is_no_teams_is_refused(name: Any) -> None:
    assert len(says(tenants.TEAMS, {name: {"gpus": 1}})) == 1


@pytest.mark.parametrize(
    ("classes", "words"),
    [
        ({"high": {}}, "'gpu_tenants_classes.high' lacks 'value'"),
        ({"high": {"value": 2_000_000_000}}, "must be a whole number from -1000000000 to"),
        ({"high": {"value": "10"}}, "must be a whole number"),
        ({"system-high": {"value": 1}}, "without 'system-' first"),
        ({"high": 10}, "must be a mapping with some of"),
        (
            {"a": {"value": 1, "default": True}, "b": {"value": 2, "default": True}},
            "has 2 defaults: 'a', 'b'",
        ),
    ],
)
def test_a_class_that_is_not_one_is_refused(classes: Any, words: str) -> None:
    (message,) = says(tenants.CLASSES, classes)
    assert words in message
