"""Checks of the cluster tier, and how the API's data is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from gpusmith.checks.cluster import ClusterFacts
from gpusmith.checks.findings import Finding, NotAsked, Outcome
from gpusmith.checks.register import catalog
from gpusmith.checks.whole_cluster import Removed, WholeCluster, leftovers, runtime_class
from gpusmith.cluster import snapshot
from gpusmith.cluster.api import Cluster
from gpusmith.cluster.snapshot import Snapshot, take, take_settled
from gpusmith.cluster.views import view_of
from gpusmith.inventory.host import Host, Inventory
from gpusmith.node.connections import Probed
from gpusmith.suite.run import Suite
from gpusmith.suite.sources import ClusterState
from tests.unit.hosts import VERSION
from tests.unit.suite.conftest import NODE_CHECKS

MakeHost = Callable[..., Host]


READY = [{"type": "Ready", "status": "True"}]


def node(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "metadata": {
            "name": "gpu-1",
            "labels": {
                "gpu-type": "h100-sxm", "gpusmith.io/operands": "enabled", "gpusmith.io/simulated": "true",
                "nvidia.com/gpu.count": "4", "nvidia.com/cuda.driver-version.full": VERSION,
            },
        },
        "spec": {"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "False"}],
            "capacity": {"nvidia.com/gpu": "4"}, "allocatable": {"nvidia.com/gpu": "4"},
        },
    }  # fmt: skip
    for path, value in changes.items():
        part = found
        *folders, last = path.split("__")
        for folder in folders:
            part = part[folder]
        part[last] = value
    return found


def operand(name: str, ready: bool = True) -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"{name}-x", "namespace": "gpusmith-system", "labels": {"app.kubernetes.io/name": name},
        },
        "spec": {"containers": [{"image": "registry.example/k8s-device-plugin:v1"}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "containerStatuses": [
                {
                    "name": "p",
                    "ready": ready,
                    "state": {} if ready else {"waiting": {"reason": "CrashLoopBackOff"}},
                }
            ],
        },
    }  # fmt: skip


ON_NODE = ("nvidia-device-plugin", "gpu-feature-discovery", "nfd-worker")
MASTER = operand("nfd-master")


def operands(**ready: bool) -> list[dict[str, Any]]:
    """All that run on a node; by name, those that are not ready."""
    return [operand(name, ready.get(name.replace("-", "_"), True)) for name in ON_NODE]


def failing(
    host: Host, raw: dict[str, Any] | None, pods: list[dict[str, Any]], master: dict[str, Any] = MASTER
) -> dict[str, str]:
    view = view_of(raw, pods, "gpusmith-system") if raw else None
    facts = ClusterFacts(host, "gpu-1", view, [*pods, master])
    found = {}
    for name, check in NODE_CHECKS.items():
        try:
            problems = check(facts)
        except NotAsked:
            continue
        if problems:
            found[name] = " ".join(problem.cause for problem in problems)
    return found


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
            {"status__capacity": {"nvidia.com/gpu": "4", "nvidia.com/mig-1g.10gb": "7", "nvidia.com/gpu.shared": "0"}},
            "cluster.gpu-capacity", "also offers 7 of 'nvidia.com/mig-1g.10gb'",
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


def test_condition_that_says_ready_is_no_pressure(host: MakeHost) -> None:
    conditions = [
        {"type": kind, "status": "True"} for kind in ("Ready", "AcceleratedHardwareReady", "GpuHealthy")
    ]
    assert failing(host(), node(status__conditions=conditions), operands()) == {}


def test_a_pass_tells_what_keeps_pods_off_the_node(host: MakeHost) -> None:
    raw = node(spec__unschedulable=True)
    raw["spec"]["taints"].append({"key": "team", "effect": "NoExecute"})
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


def test_a_snapshot_keeps_operands_that_are_on_no_gpu_node() -> None:
    waiting, done, other = operand("nfd-master"), operand("nfd-gc"), operand("nfd-master")
    done["status"]["phase"] = "Succeeded"
    other["metadata"]["namespace"] = "team"
    lists = {
        "/api/v1/nodes": [node()],
        "/api/v1/pods": [waiting, done, other],
        "/apis/node.k8s.io/v1/runtimeclasses": [],
        "/apis/apps/v1/daemonsets": [],
    }

    class Api:
        def items(self, path: str) -> list[dict[str, Any]]:
            return lists[path]

    taken = take(cast("Cluster", Api()), {"gpu-1": "gpusmith-system"})
    assert taken.system_pods == (waiting,)
    assert taken.nodes["gpu-1"].system_pods == ()


def test_runtime_class(host: MakeHost) -> None:
    def causes(classes: dict[str, str]) -> list[str]:
        facts = WholeCluster([host()], Snapshot({}, classes), Removed())
        return [problem.cause for problem in runtime_class(facts)]

    assert causes({"nvidia": "nvidia"}) == []
    assert causes({}) == ["The cluster has no RuntimeClass 'nvidia'."]
    assert causes({"nvidia": "runc"})


def test_what_an_earlier_run_left_and_cannot_be_removed_fails(host: MakeHost) -> None:
    def facts(stuck: dict[str, str]) -> WholeCluster:
        return WholeCluster([host()], Snapshot({}, {}), Removed(("old",), ("other",), stuck))

    assert leftovers(facts({})) == []
    assert catalog()["cluster.leftovers"].evidence(facts({})) == {"removed": ["old"], "other_runs": ["other"]}
    (problem,) = leftovers(facts({"old": "a finalizer"}))
    assert "'old' of an earlier run cannot be removed: a finalizer" in problem.cause


def holder(name: str, gpus: str, phase: str) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": gpus}
    return {
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"containers": [{"resources": {"limits": limits}}]},
        "status": {"phase": phase},
    }


def test_busy_gpus_are_counted_with_their_holders() -> None:
    view = view_of(
        node(),
        [holder("train", "2", "Running"), holder("done", "1", "Succeeded"), holder("soon", "1", "Pending")],
        "x",
    )
    assert [(row.name, row.gpus) for row in view.holders] == [("train", 2), ("soon", 1)]
    assert (view.held, view.free) == (3, 1)


def test_a_second_device_plugin_is_named(host: MakeHost) -> None:
    other = operand("dp2")
    other["metadata"]["namespace"] = "default"
    other["spec"]["containers"][0]["image"] = "nvcr.io/nvidia/k8s-device-plugin:v0.17.0"
    causes = failing(host(), node(), [*operands(), other])
    assert list(causes) == ["cluster.operands"]
    assert "'default/dp2-x' is a second device plugin" in causes["cluster.operands"]
    assert failing(host(gpu_operands_device_plugin="existing"), node(), [*operands(), other]) == {}


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


# --- what others set in the operands ---------------------------------------------------------------------


def set_by_others(name: str, namespace: str | None, *fields: str) -> dict[str, Any]:
    """An object of a list, which has no kind, in which somebody else set these fields of its specification."""
    rows = [
        {"manager": "gpusmith", "operation": "Apply", "fieldsV1": {"f:spec": {"f:selector": {}}}},
        {
            "manager": "kubectl-set",
            "operation": "Update",
            "fieldsV1": {"f:spec": {f"f:{field}": {} for field in fields}},
        },
    ]
    where = {"namespace": namespace} if namespace else {}
    return {"metadata": {"name": name, **where, "managedFields": rows}, "handler": "nvidia"}


PLUGIN_SET = set_by_others("nvidia-device-plugin", "gpusmith-system", "x", "y")
CLASS_SET = set_by_others("nvidia", None, "z")


def judged(
    host: Host, daemonsets: list[dict[str, Any]], classes: list[dict[str, Any]]
) -> tuple[Finding, list[str]]:
    """What cluster.operands says of a healthy node, and the lists that were asked for."""
    asked: list[str] = []
    pods = [{**pod, "spec": {**pod["spec"], "nodeName": "gpu-1"}} for pod in [*operands(), MASTER]]
    lists = {
        "/api/v1/nodes": [node()],
        "/api/v1/pods": pods,
        "/apis/node.k8s.io/v1/runtimeclasses": classes,
        "/apis/apps/v1/daemonsets": daemonsets,
    }

    class Api:
        def items(self, path: str) -> list[dict[str, Any]]:
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
    assert len(asked) == len(set(asked)) == 4


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


# --- operands that start ---------------------------------------------------------------------------------


def placed(state: dict[str, Any], name: str = "nfd-worker") -> dict[str, Any]:
    pod = operand(name, ready=False)
    pod["spec"]["nodeName"] = "gpu-1"
    pod["status"]["containerStatuses"][0]["state"] = state
    return pod


PROBED = placed({"running": {"startedAt": "2026-01-01T00:00:00Z"}})
SERVES = {**operand("nfd-worker"), "spec": PROBED["spec"]}


def asked(*answers: tuple[dict[str, Any], list[dict[str, Any]]]) -> tuple[Snapshot, list[str], int]:
    """What the suite reads, is told and how often it asks while the cluster changes from look to look."""
    looks = 0
    said: list[str] = []

    class Changing:
        def items(self, path: str, **_: str) -> list[dict[str, Any]]:
            nonlocal looks
            if path == "/api/v1/nodes":
                looks += 1
            raw, pods = answers[min(looks, len(answers)) - 1]
            return {"/api/v1/nodes": [raw], "/api/v1/pods": pods}.get(path, [])

    found = take_settled(cast(Cluster, Changing()), {"gpu-1": "gpusmith-system"}, said.append, lambda _: None)
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
    assert looks == 1
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
