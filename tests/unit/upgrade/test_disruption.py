"""Whom an upgrade disturbs."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.cluster import dra
from gpusmith.cluster.dra import NO_CLAIMS
from gpusmith.upgrade.disruption import Claimant, claimants, daemon_sets
from tests.unit.objects import gpu_slice, resource_claim

OURS = "gpusmith-system"


def pod(
    name: str = "train-0",
    gpus: int = 2,
    owner: tuple[str, str] | None = ("Job", "train"),
    namespace: str = "team",
    phase: str = "Running",
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A pod on the node."""
    limits = {"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}} if gpus else {}
    owners = [{"kind": owner[0], "name": owner[1], "controller": True}] if owner else []
    return {
        "metadata": {
            "name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": labels or {"app": "train"},
            "ownerReferences": owners,
        },
        "spec": {"containers": [{"image": "registry.example/train:1", **limits}], **spec},
        "status": {"phase": phase},
    }  # fmt: skip


def budget(selector: dict[str, Any] | None, allowed: int = 1, namespace: str = "team") -> dict[str, Any]:
    """A PodDisruptionBudget."""
    return {
        "metadata": {"name": "serve", "namespace": namespace},
        "spec": {} if selector is None else {"selector": selector},
        "status": {"disruptionsAllowed": allowed},
    }


def daemon(image: str = "registry.example/train:1", **spec: Any) -> dict[str, Any]:
    """A pod of somebody's DaemonSet, which asks for no GPU."""
    row = pod("agent-x", 0, ("DaemonSet", "agent"), "monitoring", **spec)
    row["spec"]["containers"][0]["image"] = image
    return row


# --- pods ------------------------------------------------------------------------------------------------------------


def test_pods_that_hold_gpus_are_named_with_their_owner() -> None:
    rows = [pod(), pod("alone", 1, None), pod("web", 0), pod("old", phase="Succeeded")]
    assert claimants(rows, NO_CLAIMS, [], OURS) == (
        Claimant("team/train-0", "Job/train", 2),
        Claimant("team/alone", "", 1),
    )


def test_a_pod_that_uses_the_driver_without_a_gpu_is_named() -> None:
    rows = [pod("sneaks", 0), pod("nvidia-device-plugin-x", 0, namespace=OURS)]
    users = ["uid-sneaks", "uid-nvidia-device-plugin-x"]
    assert claimants(rows, NO_CLAIMS, [], OURS, users) == (Claimant("team/sneaks", "Job/train", 0),)


def _in(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "covers"),
    [
        ({}, True),
        (None, False),
        ({"matchLabels": {"app": "train"}}, True),
        ({"matchLabels": {"app": "other"}}, False),
        ({"matchLabels": {"app": "train", "more": "1"}}, False),
        (_in("app", "In", "train", "serve"), True),
        (_in("app", "In", "serve"), False),
        (_in("app", "NotIn", "train"), False),
        (_in("none", "NotIn", "train"), True),
        (_in("app", "Exists"), True),
        (_in("none", "Exists"), False),
        (_in("none", "DoesNotExist"), True),
        (_in("app", "DoesNotExist"), False),
        ({"matchLabels": {"app": "train"}, **_in("app", "DoesNotExist")}, False),
    ],
)
def test_which_budget_protects_a_pod(selector: dict[str, Any] | None, covers: bool) -> None:
    found = claimants([pod()], NO_CLAIMS, [budget(selector, 0)], OURS)
    assert found[0].budgets == ({"serve": 0} if covers else {})


def test_budgets_of_other_namespaces_protect_nothing() -> None:
    assert claimants([pod()], NO_CLAIMS, [budget({}, namespace="other")], OURS)[0].budgets == {}


# --- DaemonSets ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "row",
    [
        daemon("nvcr.io/nvidia/k8s/dcgm-exporter:4.4.1"),
        daemon("nvcr.io/nvidia/k8s-device-plugin:v0.19.0", volumes=[{"hostPath": {"path": "/var/lib/kubelet/device-plugins"}}]),
        daemon(runtimeClassName="nvidia"),
        pod("agent-x", 1, ("DaemonSet", "agent"), "monitoring"),
    ],
)  # fmt: skip
def test_daemon_sets_of_others_that_use_the_driver_are_named(row: dict[str, Any]) -> None:
    assert daemon_sets([row], NO_CLAIMS, OURS) == ["monitoring/agent"]
    assert daemon_sets([row], NO_CLAIMS, "monitoring") == []


@pytest.mark.parametrize(("value", "uses"), [("all", True), ("void", False), ("none", False)])
def test_all_devices_asked_of_the_runtime_are_use(value: str, uses: bool) -> None:
    row = daemon()
    row["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": value}]
    assert bool(daemon_sets([row], NO_CLAIMS, OURS)) is uses


def test_a_daemon_set_whose_processes_use_the_driver_is_named() -> None:
    assert daemon_sets([daemon()], NO_CLAIMS, OURS) == []
    assert daemon_sets([daemon()], NO_CLAIMS, OURS, ["uid-agent-x"]) == ["monitoring/agent"]


def test_a_daemon_set_that_leaves_with_our_operands_is_nobodys_trouble() -> None:
    leaves = daemon(runtimeClassName="nvidia", nodeSelector={"gpusmith.io/operands": "enabled"})
    assert daemon_sets([leaves], NO_CLAIMS, OURS) == []


def test_pods_of_jobs_are_no_daemon_sets() -> None:
    assert daemon_sets([pod(), pod("alone", 1, None)], NO_CLAIMS, OURS) == []


def test_pods_with_claims_are_disturbed_too() -> None:
    claims = dra.parse([resource_claim("one", "gpu-0")], [gpu_slice("gpu-1", ["GPU-1"])])
    row = pod(gpus=0, resourceClaims=[{"name": "gpu", "resourceClaimName": "one"}])
    (found,) = claimants([row], claims, [], OURS)
    assert (found.gpus, found.devices) == (
        1,
        ("ResourceClaim 'one', device 'gpu-0' of driver 'gpu.nvidia.com' (a GPU, GPU-1)",),
    )
