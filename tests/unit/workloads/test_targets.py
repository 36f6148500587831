"""Nodes that get no workload: never a pass, and the way out is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gpusmith.checks.findings import Finding, Skip
from gpusmith.cluster.holders import Holder
from gpusmith.cluster.views import NodeView
from gpusmith.names import STARTUP_TAINT
from gpusmith.workloads.outcome import PER_NODE, NodeOutcome
from gpusmith.workloads.targets import Target, why_not
from tests.unit.hosts import make_host
from tests.unit.workloads.answers import READY, outcomes


@pytest.mark.parametrize(
    ("view", "outcome", "says"),
    [
        (None, "failed", "has no node"),
        (replace(READY, unschedulable=True), "skipped", "cordoned"),
        (
            replace(READY, ready=False, conditions=("Ready=Unknown: lost",)),
            "failed",
            "not Ready: Ready=Unknown: lost",
        ),
        (replace(READY, allocatable=0), "failed", "no allocatable GPU"),
        (replace(READY, allocatable=None), "failed", "no allocatable GPU"),
        (replace(READY, holders=(Holder("team", "train", 4),)), "skipped", "held by team/train (4)"),
        (
            replace(READY, taints=({"key": "fix", "effect": "NoSchedule"},)),
            "skipped",
            "taint fix=:NoSchedule",
        ),
    ],
)
def test_node_that_cannot_be_tested_is_never_a_pass(
    run: Any, fake_cluster: Any, view: NodeView | None, outcome: str, says: str
) -> None:
    found, _cleanup = run(gpu_1=view)
    assert outcomes(found["gpu-1"]) == dict.fromkeys(PER_NODE, outcome)
    assert all(says in row.cause for row in found["gpu-1"].findings.values())
    # Coverage says who and why of what is left out; a failure is no skip at all.
    skip = Skip.LEFT_OUT if outcome == "skipped" else None
    assert {row.skip for row in found["gpu-1"].findings.values()} == {skip}
    assert says in found["gpu-1"].reason
    assert fake_cluster.namespaces == {}


@pytest.mark.parametrize(
    ("view", "step"),
    [
        (replace(READY, unschedulable=True), "kubectl uncordon gpu-1"),
        (
            replace(READY, taints=({"key": "fix", "value": "disk", "effect": "NoSchedule"},)),
            "kubectl taint node gpu-1 fix:NoSchedule-",
        ),
        (replace(READY, holders=(Holder("team", "train", 4),)), "when the node is free"),
    ],
)
def test_a_node_that_waiting_does_not_free_is_told_what_frees_it(
    run: Callable[..., tuple[dict[str, NodeOutcome], Finding]], view: NodeView, step: str
) -> None:
    outcomes, _ = run(gpu_1=view)
    assert all(step in finding.next_step for finding in outcomes["gpu-1"].findings.values())


@pytest.mark.parametrize(
    ("key", "effect", "kept_back"),
    [
        ("fix", "NoSchedule", True),
        ("fix", "NoExecute", True),
        ("fix", "PreferNoSchedule", False),
        ("team", "NoSchedule", False),
        ("nvidia.com/gpu", "NoSchedule", False),
        (STARTUP_TAINT, "NoSchedule", False),
    ],
)
def test_only_foreign_taints_that_keep_pods_off_count(key: str, effect: str, kept_back: bool) -> None:
    host = make_host(kubernetes_node_taints=[{"key": "team", "value": "a", "effect": "NoSchedule"}])
    target = Target(host, replace(READY, taints=({"key": key, "effect": effect},)), None)
    assert (why_not(target) is not None) is kept_back
