"""Nodes that get no workload: never a pass, and the way out is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gpusmith.change.ledger import State
from gpusmith.checks.findings import Finding, Skip
from gpusmith.cluster import dra
from gpusmith.cluster.holders import Holder
from gpusmith.cluster.views import NodeView, view_of
from gpusmith.names import STARTUP_TAINT, UPGRADE
from gpusmith.workloads.outcome import NodeOutcome, per_node
from gpusmith.workloads.targets import Target, why_not
from tests.unit.hosts import make_host
from tests.unit.ledgers import ledger
from tests.unit.objects import gpu_slice, gpus, node, resource_claim
from tests.unit.workloads.answers import READY, all_passed, before_each_creation, outcomes


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
        (replace(READY, allocatable=gpus(0)), "failed", "no allocatable GPU"),
        (replace(READY, allocatable={}), "failed", "no allocatable GPU"),
        (replace(READY, holders=(Holder("team", "train", gpus(4)),)), "skipped", "held by team/train (4)"),
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
    assert outcomes(found["gpu-1"]) == dict.fromkeys(per_node(), outcome)
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
        (replace(READY, holders=(Holder("team", "train", gpus(4)),)), "when the node is free"),
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
        ("readiness.k8s.io/gpus-proved", "NoSchedule", False),
        ("readiness.k8s.io/nvidia-gpu-not-ready", "NoExecute", False),
    ],
)
def test_only_foreign_taints_that_keep_pods_off_count(key: str, effect: str, kept_back: bool) -> None:
    host = make_host(kubernetes_node_taints=[{"key": "team", "value": "a", "effect": "NoSchedule"}])
    target = Target(host, replace(READY, taints=({"key": key, "effect": effect},)), None)
    assert (why_not(target) is not None) is kept_back
    assert effect == "PreferNoSchedule" or (key in target.tolerated) is not kept_back


# --- an upgrade's own cordon -----------------------------------------------------------------------------------------

CORDONED = replace(
    READY,
    unschedulable=True,
    taints=({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},),
)


@pytest.mark.parametrize(
    ("entry", "tested"),
    [
        (ledger(), True),
        (ledger(state=State.VALIDATING), True),
        (ledger(run="another"), False),
        (ledger(cordoned=False), False),
        (ledger(cordoned=False, rollback=True), True),
        (ledger(state=State.DONE), False),
        ("{}", False),
        (None, False),
    ],
    ids=[
        "ours",
        "validating",
        "another run",
        "cordoned by others",
        "a rollback behind it",
        "finished",
        "unreadable",
        "none",
    ],
)
def test_a_cordoned_node_is_tested_for_the_upgrade_that_cordoned_it_alone(
    run: Any, fake_cluster: Any, entry: str | None, tested: bool
) -> None:
    made: list[Any] = []
    before_each_creation(fake_cluster, made.append)
    view = replace(CORDONED, annotations={} if entry is None else {UPGRADE: entry})
    found, _ = run(gpu_1=view, maintenance="u1")
    assert outcomes(found["gpu-1"]) == (all_passed() if tested else dict.fromkeys(per_node(), "skipped"))
    assert bool(found["gpu-1"].reason) is not tested
    assert all(TOLERATED in spec["tolerations"] for spec in map(pod_spec, made) if spec)
    # Not asked for, the same node is left out.
    without, _ = run(gpu_1=view)
    assert set(outcomes(without["gpu-1"]).values()) == {"skipped"}


TOLERATED = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}


def pod_spec(manifest: Any) -> Any:
    if manifest["kind"] == "Job":
        return manifest["spec"]["template"]["spec"]
    return manifest["spec"] if manifest["kind"] == "Pod" else None


def test_nobody_is_told_to_uncordon_a_node_in_an_upgrade() -> None:
    why = why_not(Target(make_host(), replace(CORDONED, annotations={UPGRADE: ledger()}), None))
    assert why is not None
    assert "is cordoned: its driver upgrade from 580.178.04 to 580.200.01 is 'admitted' since" in why.reason
    assert "uncordon" not in why.step
    assert "playbooks/upgrade_driver.yml -l gpu-1 -e gpu_upgrade_version=580.200.01" in why.step
    done = why_not(
        Target(make_host(), replace(CORDONED, annotations={UPGRADE: ledger(state=State.DONE)}), None)
    )
    assert done is not None
    assert "kubectl uncordon" in done.step


def test_no_other_nodes_pods_go_to_a_cordoned_node(run: Any, fake_cluster: Any) -> None:
    made: list[Any] = []
    before_each_creation(fake_cluster, made.append)
    run(maintenance="u1")
    specs = [spec for spec in map(pod_spec, made) if spec]
    assert specs
    assert not any(TOLERATED in spec["tolerations"] for spec in specs)


def test_a_node_whose_upgrade_ends_in_the_middle_is_left_out(run: Any) -> None:
    ours = replace(CORDONED, annotations={UPGRADE: ledger()})
    looks = iter([ours, replace(ours, annotations={UPGRADE: ledger(state=State.STUCK, run="next")})])
    last = [ours]

    def look(_: Target) -> NodeView:
        last[0] = next(looks, last[0])
        return last[0]

    found, _ = run(gpu_1=ours, maintenance="u1", look=look)
    of = outcomes(found["gpu-1"])
    assert (of["workloads.nvidia-smi"], of["workloads.cuda"]) == ("passed", "skipped")


def test_other_taints_and_states_of_such_a_node_count_as_ever() -> None:
    ours = replace(CORDONED, annotations={UPGRADE: ledger()})
    tainted = replace(ours, taints=(*ours.taints, {"key": "fix", "effect": "NoSchedule"}))
    for view, says in ((tainted, "taint fix=:NoSchedule"), (replace(ours, ready=False), "not Ready")):
        why = why_not(Target(make_host(), view, None, maintenance="u1"))
        assert why is not None
        assert says in why.reason
        assert "unschedulable" not in why.reason


def test_no_workload_starts_where_the_device_plugin_may_give_out_a_claimed_gpu() -> None:
    claims = dra.parse([resource_claim("one", "gpu-0")], [gpu_slice("gpu-1", ["GPU-1"])])
    row = {
        "metadata": {"namespace": "team", "name": "train"},
        "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimName": "one"}]},
    }
    seen = view_of(node(spec__taints=[]), [row], "x", claims)
    why = why_not(Target(make_host(), seen, None))
    assert why is not None
    assert "'team/train' (by ResourceClaim 'one', device 'gpu-0'" in why.reason
    assert not why.is_failure
    # One owner for each GPU: the plugin has the other three.
    assert why_not(Target(make_host(), replace(seen, capacity=gpus(3), allocatable=gpus(3)), None)) is None


def test_no_workload_starts_beside_a_pod_that_holds_shares_which_nobody_asked_for() -> None:
    shares = {"nvidia.com/gpu.shared": 8}
    seen = replace(
        READY,
        capacity={**READY.capacity, **shares},
        holders=(Holder("team", "train", {"nvidia.com/gpu.shared": 1}),),
    )
    why = why_not(Target(make_host(), seen, None))
    assert why is not None
    assert "'team/train'" in why.reason
    assert not why.is_failure
    # GPUs that are shared and no more offered as whole ones.
    divided = replace(seen, capacity={**gpus(3), **shares}, allocatable=gpus(3))
    assert why_not(Target(make_host(), divided, None)) is None
