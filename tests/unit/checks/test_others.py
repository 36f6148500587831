"""A node that others set up: what is judged of it, and who is told to act."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gpusmith.checks.cluster import ClusterFacts, operands
from gpusmith.checks.findings import NotApplicable
from gpusmith.checks.gpu_capacity import gpu_capacity
from gpusmith.checks.register import Reads, of_tier
from gpusmith.cluster.views import view_of
from gpusmith.expect.wanted import all_models
from gpusmith.node.facts import NodeFacts
from gpusmith.node.records import parse
from gpusmith.problems import Problem
from gpusmith.suite.owners import for_others
from gpusmith.wanted import expect_file
from gpusmith.wanted.from_cluster import as_pinned, hosts
from tests.fleet import operator, site
from tests.fleet.api import INDEX, NAME

Json = dict[str, Any]


def facts(node: Json, *pods: Json) -> ClusterFacts:
    (host,) = hosts([node]).values()
    return ClusterFacts(host, NAME, view_of(node, pods, host.operands.namespace))


def second(name: str, namespace: str = "kube-system", **labels: str) -> Json:
    made = operator.pod(name, "nvcr.io/nvidia/k8s-device-plugin:v0.17.2", "nvidia-device-plugin")
    made["metadata"] |= {"name": f"{name}-abcde", "namespace": namespace, "labels": labels}
    return made


def of_capacity(node: Json, *pods: Json) -> list[Problem]:
    seen = facts(node, *(pods or operator.PODS))
    return [for_others(seen, problem) for problem in gpu_capacity(seen)]


def test_two_device_plugins_are_named_with_their_owners() -> None:
    assert operands(facts(operator.node(), *operator.PODS)) == []
    other = second("nvdp", "team", **{"app.kubernetes.io/instance": "nvdp"})
    (problem,) = operands(facts(operator.node(), *operator.PODS, other))
    assert "'gpu-operator/nvidia-device-plugin-daemonset' of the GPU Operator" in problem.cause
    assert "'team/nvdp' of Helm release 'nvdp'" in problem.cause
    assert "kubectl" not in problem.next_step


def test_a_pod_that_follows_another_one_is_no_second_plugin() -> None:
    again = operator.pod(operator.PLUGIN, "nvcr.io/nvidia/k8s-device-plugin:v0.17.2", "nvidia-device-plugin")
    again["metadata"]["name"] = f"{operator.PLUGIN}-new"
    assert operands(facts(operator.node(), *operator.PODS, again)) == []


@pytest.mark.parametrize(
    ("pods", "says"),
    [
        (operator.PODS, f"of the GPU Operator: kubectl -n gpu-operator logs {operator.PLUGIN}-{INDEX}"),
        ([second("plugin")], "of an add-on of the cluster: kubectl -n kube-system logs plugin-abcde"),
        ([second("plugin", "gpus")], "of whoever runs namespace 'gpus': kubectl -n gpus logs plugin-abcde"),
        ([operator.PODS[2]], "No device plugin runs on the node"),
    ],
    ids=["operator", "add-on", "somebody", "nobody"],
)
def test_the_owner_of_the_plugin_is_told(pods: list[Json], says: str) -> None:
    (problem,) = of_capacity(operator.node(None), *pods)
    assert "has GPUs, as its label" in problem.cause
    assert says in problem.next_step


@pytest.mark.parametrize(
    ("capacity", "allocatable", "labels", "says"),
    [
        ({"nvidia.com/gpu": "32"}, {"nvidia.com/gpu": "32"}, {"nvidia.com/gpu.replicas": "4"}, "divides each GPU into 4 shares"),
        (
            {"nvidia.com/gpu": "4", "nvidia.com/mig-1g.10gb": "28"}, {"nvidia.com/gpu": "4", "nvidia.com/mig-1g.10gb": "28"},
            {}, "offers nvidia.com/mig-1g.10gb",
        ),
    ],
)  # fmt: skip
def test_what_others_divide_is_theirs_to_count(
    capacity: Json, allocatable: Json, labels: dict[str, str], says: str
) -> None:
    made = operator.node(labels=labels)
    made["status"] |= {"capacity": capacity, "allocatable": allocatable}
    with pytest.raises(NotApplicable, match=says):
        of_capacity(made)
    pinned = hosts([made])
    seen = facts(made)
    (host,) = as_pinned(pinned, {NAME: expect_file.pinned(seen.view)}, "f").values()  # type: ignore[arg-type]
    assert gpu_capacity(replace(seen, host=host)) == []
    name = next(iter(allocatable))
    made["status"]["allocatable"] = {**allocatable, name: "3"}
    (problem,) = of_capacity(made)
    assert f"3 of {capacity[name]} of '{name}' are allocatable" in problem.cause


def test_what_gpusmith_left_in_its_namespace_is_somebodys_as_well() -> None:
    old = second("nvidia-device-plugin", "gpusmith-system")
    old["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "nvidia-device-plugin"}]
    (problem,) = operands(facts(operator.node(), *operator.PODS, old))
    assert "of whoever runs namespace 'gpusmith-system'" in problem.cause


def test_a_node_that_went_meanwhile_is_not_joined_by_us() -> None:
    (host,) = hosts([operator.node()]).values()
    gone = ClusterFacts(host, NAME, None)
    assert "site.yml" not in for_others(gone, Problem("c", "Run site.yml.")).next_step


def machine(**changes: Json) -> NodeFacts:
    """A healthy one of a cluster of others, but for sections of its record."""
    raw = site.record(site.healthy(), 0)
    for name, section in changes.items():
        raw[name] |= section
    node = json.loads(json.dumps(operator.node()).replace(NAME, site.name_of(0)))
    (host,) = hosts([node]).values()
    record = parse(raw)
    model = all_models(host).get(host.gpu_model)
    return NodeFacts(host, record, model, {host.name: record}, {host.name: host})


EFFECTIVE = site.healthy()["containerd"]["effective"]
WITHOUT = {"active": "inactive", "enabled": "not-found", "started_unix": None, "changed": False}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        # What the operator's toolkit sets by default.
        {
            "containerd": {
                "effective": {
                    **EFFECTIVE,
                    "default_runtime": "nvidia",
                    "default_binary": "nvidia-container-runtime",
                }
            }
        },
        {
            "containerd": {
                "runtime_binary_found": None,
                "effective": {**EFFECTIVE, "runtime_nvidia": False, "runtime_binary": None},
            }
        },
        # With CRI-O, or within another service.
        {
            "services": {"containerd": WITHOUT, "kubelet": WITHOUT},
            "containerd": {"version": None, "effective": {**EFFECTIVE, "runtime_nvidia": None}},
        },
        # No kubeconfig where kubeadm has it.
        {"kubernetes": {"joined": False, "node_name": None}},
    ],
    ids=["as of gpusmith", "runtime of all pods", "no runtime", "no containerd", "no kubeadm"],
)
def test_how_others_set_machines_up_is_no_failure(changes: dict[str, Json]) -> None:
    facts = machine(**changes)
    asked = [row for row in of_tier("nodes") if row.reads is Reads.RECORD and not row.managed_only]
    for row in asked:
        try:
            assert row.judge(facts) == [], row.id
        except NotApplicable:
            continue
