"""Checks of the cluster tier on one node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from gpusmith.checks.cluster import ClusterFacts
from gpusmith.checks.findings import Finding, Outcome
from gpusmith.checks.gpu_capacity import gpu_capacity
from gpusmith.checks.register import catalog
from gpusmith.checks.whole_cluster import Removed
from gpusmith.cluster.api import Cluster
from gpusmith.cluster.snapshot import POLICIES, take
from gpusmith.cluster.views import view_of
from gpusmith.names import CONDITION
from gpusmith.node.connections import Probed
from gpusmith.node.facts import machine_of
from gpusmith.node.left_out import without
from gpusmith.node.records import parse
from gpusmith.suite.run import Suite
from gpusmith.suite.sources import ClusterState
from gpusmith.wanted.inventory import Inventory
from gpusmith.wanted.node import NodeWanted
from tests.unit.checks.judged import NODE_CHECKS
from tests.unit.checks.judged import failing_in_cluster as failing
from tests.unit.hosts import VERSION
from tests.unit.objects import MASTER, ON_NODE, node, operand, operands, set_by_others
from tests.unit.records import healthy_record, plugin_spec

MakeHost = Callable[..., NodeWanted]
READY = [{"type": "Ready", "status": "True"}]


def test_healthy_node_passes(host: MakeHost) -> None:
    assert failing(host(), node(), operands()) == {}


@pytest.mark.parametrize(
    ("changes", "check", "says"),
    [
        (
            {"status__conditions": [{"type": "Ready", "status": "Unknown", "message": "lost"}]},
            "cluster.node-ready", "not Ready: Ready=Unknown: lost",
        ),
        (
            {"status__conditions": [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "True"}]},
            "cluster.node-ready", "under pressure: DiskPressure=True",
        ),
        ({"status__allocatable": {"nvidia.com/gpu": "3"}}, "cluster.gpu-capacity", "3 of 4 GPUs are allocatable"),
        ({"status__capacity": {}, "status__allocatable": {}}, "cluster.gpu-capacity", "offers no resource"),
        (
            {"status__capacity": {"nvidia.com/gpu": "8"}, "status__allocatable": {"nvidia.com/gpu": "8"}},
            "cluster.gpu-capacity", "offers 8 GPUs, 2 times the inventory's 4, as with time slicing",
        ),
        (
            {"status__capacity": {"nvidia.com/gpu": "6"}, "status__allocatable": {"nvidia.com/gpu": "6"}},
            "cluster.gpu-capacity", "offers 6 GPUs, the inventory says 4",
        ),
        (
            {"status__conditions": [*READY, {"type": "AcceleratedHardwareReady", "status": "False"}]},
            "cluster.node-ready", "AcceleratedHardwareReady=False",
        ),
        ({"status__conditions": []}, "cluster.node-ready", "not Ready: it has no condition 'Ready'"),
        (
            {
                "status__capacity": {"nvidia.com/gpu": "4", "nvidia.com/mig-1g.10gb": "7", "nvidia.com/gpu.shared": "0"},
                "status__allocatable": {"nvidia.com/gpu": "4", "nvidia.com/mig-1g.10gb": "7"},
            },
            "cluster.gpu-capacity", "also offers 7 of 'nvidia.com/mig-1g.10gb'",
        ),
        (
            {"status__capacity": {"nvidia.com/gpu": "4", "nvidia.com/gpu-quarter": "16"}},
            "cluster.gpu-capacity", "also offers 16 of 'nvidia.com/gpu-quarter'",
        ),
        ({"spec__taints": []}, "cluster.taints", "nvidia.com/gpu=present:NoSchedule"),
        ({"metadata__labels": {}}, "cluster.labels", "gpu-type"),
    ],
)  # fmt: skip
def test_fault_is_named(host: MakeHost, changes: dict[str, Any], check: str, says: str) -> None:
    found = failing(host(), node(**changes), operands())
    assert list(found) == [check]
    assert says in found[check]
    assert "gpu-1" in found[check]


def test_without_a_declared_model_there_is_no_label_for_it(host: MakeHost) -> None:
    unlabelled = node()
    del unlabelled["metadata"]["labels"]["gpu-type"]
    assert failing(host(gpusmith_gpu_model=None), unlabelled, operands()) == {}


def test_other_devices_of_nvidia_are_no_gpus(host: MakeHost) -> None:
    capacity = {"nvidia.com/gpu": "4", "nvidia.com/hostdev": "8", "nvidia.com/rdma_shared_device_a": "63"}
    assert failing(host(), node(status__capacity=capacity), operands()) == {}


def test_the_count_of_feature_discovery_is_wanted_where_it_runs(host: MakeHost) -> None:
    raw = node()
    del raw["metadata"]["labels"]["nvidia.com/gpu.count"]
    theirs = host(gpu_operands_feature_discovery="existing")
    assert "did not describe it" in failing(host(), raw, operands())["cluster.labels"]
    # A cluster without one has no such label.
    assert failing(theirs, raw, operands()) == {}
    raw["metadata"]["labels"]["nvidia.com/gpu.count"] = "3"
    assert "counts 3 GPUs" in failing(theirs, raw, operands())["cluster.labels"]
    # One that somebody else runs there has to write it.
    del raw["metadata"]["labels"]["nvidia.com/gpu.count"]
    other = operand("gfd")
    other["metadata"]["namespace"] = "theirs"
    other["spec"]["containers"][0]["command"] = ["gpu-feature-discovery"]
    assert "did not describe it" in failing(theirs, raw, [*operands(), other])["cluster.labels"]


def test_condition_that_says_ready_is_no_pressure(host: MakeHost) -> None:
    conditions = [
        {"type": kind, "status": "True"} for kind in ("Ready", "AcceleratedHardwareReady", "GpuHealthy")
    ]
    assert failing(host(), node(status__conditions=conditions), operands()) == {}


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        ("MemoryPressure", "fails"), ("NetworkUnavailable", "fails"), ("KernelDeadlock", "fails"),
        ("ReadonlyFilesystem", "fails"), ("FrequentContainerdRestart", "fails"), ("KubeletProblem", "fails"),
        ("EtcdIsVoter", "noted"), ("NTPInSync", "noted"), ("RDMALinkUp", "noted"), ("DrainScheduled", "noted"),
        (CONDITION, "ours"),
    ],
)  # fmt: skip
def test_conditions_that_nobody_here_knows_are_told_and_not_judged(
    host: MakeHost, kind: str, outcome: str
) -> None:
    raw = node(status__conditions=[*READY, {"type": kind, "status": "True", "message": "so it is"}])
    assert ("cluster.node-ready" in failing(host(), raw, operands())) is (outcome == "fails")
    seen = view_of(raw, [], "gpusmith-system")
    assert bool(seen.unjudged) is (outcome == "noted")
    off = node(status__conditions=[*READY, {"type": kind, "status": "False"}])
    assert failing(host(), off, operands()) == {}
    assert view_of(off, [], "gpusmith-system").unjudged == ()


def test_a_pass_tells_what_keeps_pods_off_the_node(host: MakeHost) -> None:
    raw = node(spec__unschedulable=True)
    foreign = [("team", "NoExecute"), ("readiness.k8s.io/gpus-are-proved", "NoSchedule")]
    raw["spec"]["taints"] += [{"key": key, "effect": effect} for key, effect in foreign]
    assert failing(host(), raw, operands()) == {}
    facts = ClusterFacts(host(), "gpu-1", view_of(raw, [], "x"))
    evidence = catalog()["cluster.taints"].evidence(facts)
    assert evidence["unschedulable"] is True
    assert ["team", "", "NoExecute"] in evidence["taints"]


def test_simulated_label_on_a_real_node_fails(host: MakeHost) -> None:
    assert (
        "labelled as simulated"
        in failing(host(gpusmith_simulated=False), node(), operands())["cluster.labels"]
    )


def test_labels_of_another_driver_fail(host: MakeHost) -> None:
    raw = node()
    raw["metadata"]["labels"]["nvidia.com/cuda.driver-version.full"] = "570.1.2"
    assert "is '570.1.2', the inventory's driver is" in failing(host(), raw, operands())["cluster.labels"]


def test_a_revision_in_the_inventory_is_no_other_driver(host: MakeHost) -> None:
    raw = node()
    raw["metadata"]["labels"]["nvidia.com/cuda.driver-version.full"] = VERSION
    assert failing(host(nvidia_driver_version=f"{VERSION}-1"), raw, operands()) == {}


def test_missing_node_fails_once(host: MakeHost) -> None:
    assert failing(host(), None, []) == {
        "cluster.node-ready": "The cluster has no node 'gpu-1' (host 'gpu-1')."
    }


def test_an_operand_that_is_not_ready_fails(host: MakeHost) -> None:
    found = failing(host(), node(), operands(nvidia_device_plugin=False))
    assert (
        "'gpusmith-system/nvidia-device-plugin-x': container 'p' is not ready (CrashLoopBackOff)"
        in found["cluster.operands"]
    )


@pytest.mark.parametrize("name", ON_NODE)
def test_every_operand_of_ours_must_be_on_the_node(host: MakeHost, name: str) -> None:
    there = [operand(other) for other in ON_NODE if other != name]
    assert f"runs no pod of operand '{name}'" in failing(host(), node(), there)["cluster.operands"]
    variables = {
        "nvidia-device-plugin": "gpu_operands_device_plugin",
        "gpu-feature-discovery": "gpu_operands_feature_discovery",
        "nfd-worker": "gpu_operands_node_feature_discovery",
    }
    assert "cluster.operands" not in failing(host(**{variables[name]: "existing"}), node(), there)


def test_the_master_of_feature_discovery_must_be_ready(host: MakeHost) -> None:
    gone = failing(host(), node(), operands(), master=operand("nfd-master", ready=False))
    assert "No pod of 'nfd-master' is ready" in gone["cluster.operands"]
    theirs = host(gpu_operands_node_feature_discovery="existing")
    assert "cluster.operands" not in failing(theirs, node(), operands(), master=operand("other"))


def test_operands_of_the_cluster_itself_are_not_ours_to_judge(host: MakeHost) -> None:
    theirs = host(
        gpu_operands_device_plugin="existing",
        gpu_operands_feature_discovery="existing",
        gpu_operands_node_feature_discovery="existing",
    )
    assert "cluster.operands" not in failing(theirs, node(), [])


def test_a_second_device_plugin_is_named(host: MakeHost) -> None:
    other = operand("dp2")
    other["metadata"]["namespace"] = "default"
    other["spec"]["containers"][0]["image"] = "nvcr.io/nvidia/k8s-device-plugin:v0.17.0"
    other["spec"]["volumes"] = [{"hostPath": {"path": "/var/lib/kubelet/device-plugins"}}]
    causes = failing(host(), node(), [*operands(), other])
    assert list(causes) == ["cluster.operands"]
    assert "'default/dp2-x' is a second device plugin" in causes["cluster.operands"]
    assert failing(host(gpu_operands_device_plugin="existing"), node(), [*operands(), other]) == {}


@pytest.mark.parametrize(
    ("strategy", "specs", "mine", "says"),
    [
        ("envvar,cdi-cri", [], False, "so no new pod gets a GPU"),
        ("cdi-annotations", [], False, "so no new pod gets a GPU"),
        ("cdi-cri", [plugin_spec()], False, ""),
        ("envvar", [], False, ""),
        # Of ours nodes.cdi tells.
        ("cdi-cri", [], True, ""),
    ],
)
def test_a_plugin_of_others_whose_cdi_file_is_gone_is_named_with_its_owners_command(
    host: MakeHost, strategy: str, specs: list[dict[str, Any]], mine: bool, says: str
) -> None:
    theirs = operand("dp")
    theirs["metadata"]["namespace"] = "nvidia"
    theirs["spec"]["containers"][0]["env"] = [{"name": "DEVICE_LIST_STRATEGY", "value": strategy}]
    theirs["spec"]["volumes"] = [{"hostPath": {"path": "/var/lib/kubelet/device-plugins"}}]
    of = host() if mine else host(gpu_operands_device_plugin="existing")
    record = healthy_record()
    record["cdi"]["plugin_specs"] = specs
    view = view_of(node(), [theirs], "gpusmith-system")
    facts = ClusterFacts(of, "gpu-1", view, machine=machine_of(of, parse(record)))
    found = gpu_capacity(facts)
    assert [says in problem.cause for problem in found] == ([True] if says else [])
    if says:
        assert "'nvidia/dp-x'" in found[0].cause
        assert found[0].next_step.endswith("kubectl -n nvidia delete pod dp-x")


def test_a_second_feature_discovery_is_no_device_plugin(host: MakeHost) -> None:
    other = operand("gfd2")
    other["metadata"]["namespace"] = "default"
    other["spec"]["containers"][0].update(
        image="nvcr.io/nvidia/k8s-device-plugin:v0.17.0", command=["gpu-feature-discovery"]
    )
    assert failing(host(), node(), [*operands(), other]) == {}


def test_a_node_without_any_allocatable_gpu_is_told_to_restart_the_plugin(host: MakeHost) -> None:
    view = view_of(node(status__allocatable={"nvidia.com/gpu": "0"}), [], "gpusmith-system")
    (problem,) = NODE_CHECKS["cluster.gpu-capacity"](ClusterFacts(host(), "gpu-1", view))
    assert "delete pod -l app.kubernetes.io/name=nvidia-device-plugin" in problem.next_step
    assert "spec.nodeName=gpu-1" in problem.next_step
    theirs = host(gpu_operands_device_plugin="existing")
    (problem,) = NODE_CHECKS["cluster.gpu-capacity"](ClusterFacts(theirs, "gpu-1", view))
    assert "delete" not in problem.next_step


@pytest.mark.parametrize(
    ("label", "says"),
    [
        (
            {"nvidia.com/gpu.deploy.device-plugin": "paused-for-driver-upgrade"},
            "is 'paused-for-driver-upgrade'",
        ),
        ({}, "node selector"),
    ],
)
@pytest.mark.parametrize("left", [{}, {"nvidia.com/gpu": "4"}], ids=["never", "a moment ago"])
def test_a_node_on_which_no_plugin_of_others_runs_has_no_log_of_one(
    host: MakeHost, label: dict[str, str], says: str, left: dict[str, str]
) -> None:
    """gpu-operator#316: its driver manager leaves its labels paused. A kubelet keeps the capacity for five minutes."""
    none = dict.fromkeys(left, "0")
    raw = node(status__capacity=left, status__allocatable=none, metadata__labels=label)
    facts = ClusterFacts(
        host(gpu_operands_device_plugin="existing"), "gpu-1", view_of(raw, [], "gpusmith-system")
    )
    (problem,) = gpu_capacity(facts)
    assert says in problem.next_step
    assert "log" not in problem.next_step


@pytest.mark.parametrize(("driver", "named"), [("nvidia", True), ("vfio-pci", False)])
@pytest.mark.parametrize("count", ["5", "8"])
def test_a_gpu_that_is_left_out_and_offered_all_the_same_is_named(
    host: MakeHost, driver: str, named: bool, count: str
) -> None:
    of, record = host(gpusmith_gpus_ignored=["10de:1fb0"]), healthy_record()
    record["pci"]["gpus"].append({"address": "0000:c1:00.0", "device_id": "10de:1fb0", "driver": driver})
    offered = {"nvidia.com/gpu": count}
    labels = {**node()["metadata"]["labels"], "nvidia.com/gpu.count": count}
    raw = node(status__capacity=offered, status__allocatable=offered, metadata__labels=labels)
    seen = machine_of(of, parse(without(record, of.gpus_ignored)))
    facts = ClusterFacts(of, "gpu-1", view_of(raw, [], "gpusmith-system"), machine=seen)
    for check in ("cluster.gpu-capacity", "cluster.labels"):
        (step,) = (row.next_step for row in NODE_CHECKS[check](facts))
        assert ("0000:c1:00.0" in step and "vfio-pci" in step) is named


PLUGIN_SET = set_by_others("nvidia-device-plugin", "gpusmith-system", "x", "y")
CLASS_SET = set_by_others("nvidia", None, "z")


def judged(
    host: NodeWanted, daemonsets: list[dict[str, Any]], classes: list[dict[str, Any]]
) -> tuple[Finding, list[str]]:
    """What cluster.operands says of a healthy node, and the lists that were asked for."""
    asked: list[str] = []
    pods = [{**pod, "spec": {**pod["spec"], "nodeName": "gpu-1"}} for pod in [*operands(), MASTER]]
    lists = {
        "/api/v1/nodes": [node()],
        "/api/v1/pods": pods,
        "/apis/node.k8s.io/v1/runtimeclasses": classes,
        "/apis/apps/v1/daemonsets": daemonsets,
        "/api/v1/resourcequotas": [],
        "/api/v1/limitranges": [],
        **{path: [] for path in POLICIES.values()},
    }

    class Api:
        def serves(self, version: str) -> bool:
            return False

        def items(self, path: str, _cut: Any = None, /) -> list[dict[str, Any]]:
            asked.append(path)
            return lists[path]

    api = cast("Cluster", Api())
    suite = Suite(Inventory("x", "", {"gpu-1": host}, {}), Path())
    suite.sources.__dict__["probed"] = {"gpu-1": Probed(None, "", "", 0)}
    taken = take(api, {"gpu-1": "gpusmith-system"})
    suite.sources.__dict__["cluster_state"] = ClusterState(api, taken, Removed())
    return suite.evaluate("cluster.operands", "gpu-1"), asked


def test_what_others_set_in_our_operands_is_named_with_what_to_do(host: MakeHost) -> None:
    ours = set_by_others("nfd-worker", "gpusmith-system")
    finding, asked = judged(host(), [PLUGIN_SET, ours], [CLASS_SET])
    plugin = "DaemonSet 'gpusmith-system/nvidia-device-plugin'"
    assert finding.outcome is Outcome.FAILED
    assert finding.cause == (
        f"Node 'gpu-1': in {plugin} somebody else than site.yml set spec.x, spec.y."
        " Node 'gpu-1': in RuntimeClass 'nvidia' somebody else than site.yml set spec.z."
    )
    assert finding.next_step == "Run site.yml."
    assert finding.evidence["foreign_fields"] == {
        plugin: ["spec.x", "spec.y"],
        "RuntimeClass 'nvidia'": ["spec.z"],
    }
    assert len(asked) == len(set(asked)) == 8


def test_what_is_not_ours_may_be_as_it_is(host: MakeHost) -> None:
    other_place = set_by_others("nvidia-device-plugin", "kube-system", "x")
    other_name = set_by_others("team", "gpusmith-system", "x")
    strangers = judged(host(), [other_place, other_name], [set_by_others("kata", None, "x")])[0]
    assert strangers.outcome is Outcome.PASSED
    existing = judged(host(gpu_operands_device_plugin="existing"), [PLUGIN_SET], [])[0]
    assert existing.outcome is Outcome.PASSED


def test_every_list_of_the_snapshot_is_a_right_of_the_suite(host: MakeHost, root: Path) -> None:
    (role,) = (
        row
        for row in yaml.safe_load_all((root / "validation/rbac.yml").read_text())
        if row["kind"] == "ClusterRole"
    )
    allowed = {
        (group, resource)
        for rule in role["rules"]
        if "list" in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    for path in judged(host(), [], [])[1]:
        *_, group, _, resource = path.replace("/api/", "//").split("/")
        assert (group, resource) in allowed, path
