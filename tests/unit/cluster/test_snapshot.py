"""What the suite reads of the cluster, once its operands had time to start."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

import pytest

from gpusmith.cluster import snapshot
from gpusmith.cluster.api import Cluster
from gpusmith.cluster.snapshot import POLICIES, Snapshot, _tenant, take, take_settled
from gpusmith.wanted.node import NodeWanted
from tests.unit.checks.judged import failing_in_cluster as failing
from tests.unit.objects import node, operand

MakeHost = Callable[..., NodeWanted]


def test_a_snapshot_keeps_operands_that_are_on_no_gpu_node() -> None:
    waiting, done, other = operand("nfd-master"), operand("nfd-gc"), operand("nfd-master")
    done["status"]["phase"] = "Succeeded"
    other["metadata"]["namespace"] = "team"
    lists = {
        "/api/v1/nodes": [node()],
        "/api/v1/pods": [waiting, done, other, copy.deepcopy(waiting)],
        "/apis/node.k8s.io/v1/runtimeclasses": [],
        "/apis/apps/v1/daemonsets": [],
        "/api/v1/resourcequotas": [],
        "/api/v1/limitranges": [],
        **{path: [] for path in POLICIES.values()},
    }

    class Api:
        def serves(self, version: str) -> bool:
            return False

        def items(self, path: str, cut: Any = None, /) -> list[dict[str, Any]]:
            rows = copy.deepcopy(lists[path])
            return [kept for row in rows if (kept := cut(row)) is not None] if cut else rows

    taken = take(cast("Cluster", Api()), {"gpu-1": "gpusmith-system"})
    one, same = taken.system_pods
    assert one == waiting
    assert one is same, "what pods have in common is in memory once"
    assert taken.nodes["gpu-1"].system_pods == ()


def placed(state: dict[str, Any], name: str = "nfd-worker") -> dict[str, Any]:
    pod = operand(name, ready=False)
    pod["spec"]["nodeName"] = "gpu-1"
    pod["status"]["containerStatuses"][0]["state"] = state
    return pod


PROBED = placed({"running": {"startedAt": "2026-01-01T00:00:00Z"}})
OPERANDS = "/api/v1/namespaces/gpusmith-system/pods"
SERVES = {**operand("nfd-worker"), "spec": PROBED["spec"]}


def asked(
    *answers: tuple[dict[str, Any], list[dict[str, Any]]], **loaded: str
) -> tuple[Snapshot, list[str], int]:
    """What the suite reads, is told and how often it asks while the cluster changes from look to look."""
    looks, lists = 0, Counter[str]()
    said: list[str] = []

    class Changing:
        def serves(self, version: str) -> bool:
            return False

        def items(self, path: str, _cut: Any = None, /, **query: str) -> list[dict[str, Any]]:
            nonlocal looks
            if path == OPERANDS or (path == "/api/v1/nodes" and not query and not looks):
                looks += 1
            if not query:
                lists[path] += 1
            raw, pods = answers[min(looks, len(answers)) - 1]
            return {"/api/v1/nodes": [raw], "/api/v1/pods": pods, OPERANDS: pods}.get(path, [])

    found = take_settled(
        cast(Cluster, Changing()),
        {"gpu-1": "gpusmith-system"},
        said.append,
        lambda _: None,
        {name.replace("_", "-"): version for name, version in loaded.items()},
    )
    # Those of the whole cluster: before, and once more after a wait.
    assert lists["/api/v1/nodes"] == lists["/api/v1/pods"] == (2 if said else 1)
    return found, said, looks


def test_a_readiness_probe_that_is_about_to_pass_is_waited_for() -> None:
    found, said, looks = asked((node(), [PROBED]), (node(), [PROBED]), (node(), [SERVES]))
    assert (looks, len(said)) == (3, 1)
    assert "nfd-worker-x" in said[0]
    assert found.nodes["gpu-1"].system_pods == (SERVES,)


@pytest.mark.parametrize(
    ("raw", "pod"),
    [
        (node(), SERVES),
        (node(), placed({"waiting": {"reason": "CrashLoopBackOff"}})),
        (node(), placed({"waiting": {"reason": "ImagePullBackOff"}})),
        (node(), placed({"terminated": {"reason": "Error"}})),
        (node(), {**operand("nfd-master"), "status": {"phase": "Pending"}}),
        (node(status__conditions=[{"type": "Ready", "status": "Unknown"}]), PROBED),
    ],
    ids=["ready", "crashes", "no image", "ended", "on no node", "on a dead node"],
)
def test_nothing_else_is_waited_for(raw: dict[str, Any], pod: dict[str, Any]) -> None:
    assert asked((raw, [pod]))[1:] == ([], 1)


def test_a_probe_that_does_not_pass_is_named(host: MakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "OPERANDS_WAIT_S", 0.0)
    found, _, looks = asked((node(), [PROBED]))
    assert looks == 2
    pods = [
        operand("nvidia-device-plugin"),
        operand("gpu-feature-discovery"),
        *found.nodes["gpu-1"].system_pods,
    ]
    assert (
        "runs since 2026-01-01T00:00:00Z, its readiness probe does not pass"
        in failing(host(), node(), pods)["cluster.operands"]
    )


def test_the_master_is_waited_for_wherever_it_runs() -> None:
    elsewhere = placed({"waiting": {"reason": "ContainerCreating"}}, "nfd-master")
    elsewhere["spec"]["nodeName"] = "cp-1"
    ready = {**operand("nfd-master"), "spec": elsewhere["spec"]}
    assert asked((node(), [elsewhere]), (node(), [ready]))[2] == 2


def test_a_description_of_the_driver_before_is_waited_for() -> None:
    """After an upgrade feature discovery needs a while; its labels are those of the old driver, then none, then new ones."""
    old, none, new = node(), node(), node()
    none["metadata"]["labels"] = {}
    new["metadata"]["labels"]["nvidia.com/cuda.driver-version.full"] = "580.200.01"
    rows = [(raw, [SERVES]) for raw in (old, none, new)]
    found, said, looks = asked(*rows, gpu_1="580.200.01")
    assert (looks, len(said)) == (3, 1)
    assert "labels of node 'gpu-1', which tell driver '580.178.04'" in said[0]
    assert found.nodes["gpu-1"].labels["nvidia.com/cuda.driver-version.full"] == "580.200.01"


@pytest.mark.parametrize("loaded", [{}, {"gpu_1": "580.178.04"}, {"gpu_2": "580.200.01"}])
def test_descriptions_are_not_waited_for_without_need(loaded: dict[str, str]) -> None:
    assert asked((node(), [SERVES]), **loaded)[1:] == ([], 1)
    # An old feature discovery tells no driver.
    bare = node()
    del bare["metadata"]["labels"]["nvidia.com/cuda.driver-version.full"]
    assert asked((bare, [SERVES]), **loaded)[1:] == ([], 1)


GPU_LIMIT = {"limits": {"nvidia.com/gpu": "1"}}
TENANTS: dict[str, dict[str, Any]] = {
    "holder": {"containers": [{"name": "a", "image": "i", "env": [{"name": "A"}], "resources": GPU_LIMIT}]},
    "sidecar": {
        "initContainers": [{"name": "s", "restartPolicy": "Always", "resources": GPU_LIMIT}],
        "containers": [{"name": "a", "resources": GPU_LIMIT}],
    },
    "privileged": {"containers": [{"name": "a", "securityContext": {"privileged": True}}]},
    "device": {"containers": [{"name": "a"}], "volumes": [{"name": "d", "hostPath": {"path": "/dev"}}, {"name": "e"}]},
    "claim": {"containers": [{"name": "a"}], "resourceClaims": [{"name": "g", "resourceClaimName": "one"}]},
    "plugin": {
        "containers": [
            {"name": "p", "image": "x/k8s-device-plugin:1", "env": [{"name": "DEVICE_LIST_STRATEGY", "value": "cdi-cri"}]}
        ],
        "volumes": [{"name": "k", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}],
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", TENANTS)
def test_a_pod_tells_the_same_without_what_nobody_reads(kind: str) -> None:
    """What is cut off as pages come: all that memory for thousands of nodes would be spent on."""
    pod = {
        "metadata": {"name": kind, "namespace": "team", "uid": "u", "managedFields": [{"manager": "x"}]},
        "spec": {"nodeName": "gpu-1", "tolerations": [{"operator": "Exists"}], **TENANTS[kind]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    pod["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "j", "controller": True}]
    lists = {"/api/v1/nodes": [node()], "/api/v1/pods": [pod]}

    class Api:
        def __init__(self, cuts: bool) -> None:
            self.cuts = cuts

        def serves(self, version: str) -> bool:
            return False

        def items(self, path: str, cut: Any = None, /) -> list[dict[str, Any]]:
            rows = copy.deepcopy(lists.get(path, []))
            return [kept for row in rows if (kept := cut(row)) is not None] if cut and self.cuts else rows

    whole, reduced = (
        take(cast("Cluster", Api(cuts)), {"gpu-1": "gpusmith-system"}) for cuts in (False, True)
    )
    assert reduced.nodes["gpu-1"] == whole.nodes["gpu-1"]
    if kind != "plugin":
        assert "env" not in str(_tenant(copy.deepcopy(pod)))
