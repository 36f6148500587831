"""What a check of the cluster tier says that site.yml repairs, the work that site.yml does in the cluster repairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from gpusmith.checks.cluster import ClusterFacts
from gpusmith.checks.findings import NotAsked
from gpusmith.checks.whole_cluster import Removed, WholeCluster, runtime_class
from gpusmith.cluster import apply, node_metadata
from gpusmith.cluster.snapshot import take
from gpusmith.paths import repo_root
from gpusmith.problems import SITE, Cure, Problem
from gpusmith.wanted.node import NodeWanted
from tests.unit.checks.judged import NODE_CHECKS
from tests.unit.cluster.conftest import Memory
from tests.unit.hosts import make_host
from tests.unit.objects import ON_NODE, node, operand

SPACE = "gpusmith-system"
NODE = "/api/v1/nodes/gpu-1"
CLASS = "/apis/node.k8s.io/v1/runtimeclasses/nvidia"
SETS = f"/apis/apps/v1/namespaces/{SPACE}/daemonsets"
OURS: list[dict[str, Any]] = [
    {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "nvidia"},
        "handler": "nvidia",
    },
    *(
        {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": SPACE}, "spec": {}}
        for kind, names in (("DaemonSet", ON_NODE), ("Deployment", ("nfd-master",)))
        for name in names
    ),
]
"""What role gpu_operands applies, as far as the checks go by it."""


def labels(host: NodeWanted) -> dict[str, str]:
    """Those that role kubernetes_node sets, by its own expression."""
    role = yaml.safe_load((repo_root() / "roles/kubernetes_node/vars/main.yml").read_text())
    # Templates outside of a play do not know the collection's filters.
    expression = role["__kubernetes_node_all_labels"].replace(" | gpusmith.gpu.truth", "")
    variables = {
        "kubernetes_node_labels": dict(host.kubernetes.labels),
        "gpusmith_gpu_count": host.gpu_count,
        "gpusmith_simulated": host.simulated,
        "gpusmith_gpu_model": host.gpu_model,
    }
    found: dict[str, str] = Templar(DataLoader(), variables=variables).template(trust_as_template(expression))
    return found


def controllers(memory: Memory) -> None:
    """What the cluster makes of DaemonSets and Deployments, and feature discovery of the node."""
    if NODE in memory.objects:
        memory.objects[NODE]["metadata"]["labels"]["nvidia.com/gpu.count"] = "4"
    for path, found in list(memory.objects.items()):
        if path.startswith("/apis/apps/"):
            name = found["metadata"]["name"]
            pod = operand(name)
            pod["spec"]["nodeName"] = "gpu-1"
            memory.objects[f"/api/v1/namespaces/{SPACE}/pods/{name}-x"] = pod


def provision(memory: Memory, host: NodeWanted) -> None:
    """What site.yml does in the cluster."""
    wanted = node_metadata.Wanted(labels(host), tuple(host.kubernetes.taints))
    states = node_metadata.make(memory.cluster, {"gpu-1": wanted}, 1, sleep=lambda _: None)
    assert states["gpu-1"].problem == ""
    apply.apply(memory.cluster, OURS, check=False)
    controllers(memory)


def healthy(host: NodeWanted) -> Memory:
    found = node()
    found["metadata"]["resourceVersion"] = "1"
    memory = Memory({NODE: found})
    provision(memory, host)
    return memory


def judged(memory: Memory, host: NodeWanted) -> list[Problem]:
    snapshot = take(memory.cluster, {"gpu-1": SPACE})
    facts = ClusterFacts(
        host, "gpu-1", snapshot.nodes.get("gpu-1"), snapshot.ready_operands, snapshot.foreign_fields
    )
    found: list[Problem] = list(runtime_class(WholeCluster([host], snapshot, Removed())))
    for check in NODE_CHECKS.values():
        try:
            found += check(facts)
        except NotAsked:
            continue
    return found


def without(path: str) -> Callable[[Memory], object]:
    return lambda memory: memory.objects.pop(path)


def without_operand(kind: str, name: str) -> Callable[[Memory], object]:
    def change(memory: Memory) -> None:
        del memory.objects[f"/apis/apps/v1/namespaces/{SPACE}/{kind}/{name}"]
        del memory.objects[f"/api/v1/namespaces/{SPACE}/pods/{name}-x"]

    return change


def foreign(path: str) -> Callable[[Memory], object]:
    row = {"manager": "kubectl-edit", "operation": "Update", "fieldsV1": {"f:spec": {"f:hostPID": {}}}}
    return lambda memory: memory.objects[path]["metadata"]["managedFields"].append(row)


FAULTS: dict[str, tuple[Callable[[Memory], object], Cure]] = {
    "label-changed": (
        lambda memory: memory.objects[NODE]["metadata"]["labels"].update({"gpu-type": "t4"}),
        Cure.LABELS,
    ),
    "label-of-operands-gone": (
        lambda memory: memory.objects[NODE]["metadata"]["labels"].pop("gpusmith.io/operands"),
        Cure.LABELS,
    ),
    "taint-gone": (lambda memory: memory.objects[NODE]["spec"].update(taints=[]), Cure.LABELS),
    "no-runtime-class": (without(CLASS), Cure.OPERANDS),
    "no-device-plugin": (without_operand("daemonsets", "nvidia-device-plugin"), Cure.OPERANDS),
    "no-master": (without_operand("deployments", "nfd-master"), Cure.OPERANDS),
    "field-of-others": (foreign(f"{SETS}/nfd-worker"), Cure.OPERANDS),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_site_repairs_it_repairs(name: str) -> None:
    host = make_host()
    memory = healthy(host)
    assert judged(memory, host) == []
    change, cure = FAULTS[name]
    change(memory)
    found = judged(memory, host)
    assert {problem.cure for problem in found} == {cure}
    assert all("site.yml" in problem.next_step for problem in found)
    provision(memory, host)
    assert judged(memory, host) == []


def test_each_cure_of_the_cluster_is_walked() -> None:
    assert {cure for _, cure in FAULTS.values()} == {Cure.LABELS, Cure.OPERANDS}


NO_CURE: Sequence[tuple[str, Callable[[Memory], object]]] = (
    ("not-ready", lambda memory: memory.objects[NODE]["status"].update(conditions=[])),
    (
        "fewer-gpus",
        lambda memory: memory.objects[NODE]["status"]["allocatable"].update({"nvidia.com/gpu": "3"}),
    ),
    ("another-handler", lambda memory: memory.objects[CLASS].update(handler="runc")),
    (
        "operand-crashes",
        lambda memory: memory.objects.update(
            {f"/api/v1/namespaces/{SPACE}/pods/nfd-worker-x": _on_node(operand("nfd-worker", ready=False))}
        ),
    ),
)


def _on_node(pod: dict[str, Any]) -> dict[str, Any]:
    pod["spec"]["nodeName"] = "gpu-1"
    return pod


@pytest.mark.parametrize(("name", "change"), NO_CURE, ids=[name for name, _ in NO_CURE])
def test_what_site_does_not_repair_it_does_not_promise(name: str, change: Callable[[Memory], object]) -> None:
    host = make_host()
    memory = healthy(host)
    change(memory)
    found = judged(memory, host)
    assert found
    assert not {problem.cure for problem in found} & SITE
    for problem in found:
        # A handler cannot be changed: a person deletes the class first.
        assert "site.yml" not in problem.next_step or "kubectl delete" in problem.next_step


def test_a_missing_node_is_joined() -> None:
    host = make_host()
    memory = healthy(host)
    del memory.objects[NODE]
    (problem,) = judged(memory, host)
    assert problem.cure is Cure.JOIN
    assert "site.yml" in problem.next_step


def test_the_labels_that_the_role_sets_are_those_that_are_wanted() -> None:
    # The model's own variable goes before a label of the same name.
    host = make_host(kubernetes_node_labels={"gpu-type": "a100", "rack": "7"})
    assert judged(healthy(host), host) == []
