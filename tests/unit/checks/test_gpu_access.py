"""Pods that use GPUs past the scheduler, and those that could."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.checks.cluster import ClusterFacts
from gpusmith.checks.findings import CannotAsk
from gpusmith.checks.gpu_access import _access, gpu_access
from gpusmith.cluster.views import view_of
from gpusmith.node.facts import machine_of
from gpusmith.probe.allocations import Allocations
from gpusmith.probe.record import SCHEMA, Record
from gpusmith.probe.usage import Holder
from tests.unit.hosts import make_host
from tests.unit.objects import node, privileged

UID = "9b4e28ba-2fa1-11d2-883f-0016d3cca427"
OPEN = Holder(7, "root", "python3", ("/dev/nvidia2",), pod_uid=UID, started_unix=1.7e9)
DEBUG = {"kind": "ReplicaSet", "name": "debug-6f", "controller": True}
AGENT = {"kind": "DaemonSet", "name": "agent", "controller": True}


def facts(
    pods: list[dict[str, Any]], *holders: Holder, given: Allocations | None = None, known: bool = True
) -> ClusterFacts:
    record = Record(SCHEMA, holders=holders if known else None, allocations=given)
    machine = machine_of(make_host(), record)
    return ClusterFacts(make_host(), "gpu-1", view_of(node(), pods, "gpusmith-system"), machine=machine)


def pod(limits: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    found = privileged("debug", UID, **metadata)
    found["spec"]["containers"][0]["resources"] = {"limits": limits or {}}
    return found


def test_a_pod_that_has_a_gpu_open_and_holds_none_is_named() -> None:
    (problem,) = gpu_access(facts([pod(ownerReferences=[DEBUG])], OPEN))
    assert problem.cause == (
        "Node 'gpu-1': pod 'team/debug' (privileged, ReplicaSet 'debug-6f') holds no GPU, and its process 7 'python3'"
        " (user 'root') has /dev/nvidia2 open since 2023-11-14 22:13 UTC."
    )
    assert "kubectl -n team get pod debug -o yaml" in problem.next_step


@pytest.mark.parametrize(
    ("found", "holder"),
    [
        (pod(limits={"nvidia.com/gpu": "1"}), OPEN),
        (pod(ownerReferences=[AGENT]), OPEN),
        (pod(ownerReferences=[{"kind": "Node", "name": "gpu-1"}]), OPEN),
        (pod(namespace="kube-system"), OPEN),
        (pod(namespace="gpusmith-system"), OPEN),
        (pod(), Holder(7, "root", "dcgm-exporter", ("/dev/nvidia2",), pod_uid=UID)),
        (pod(), Holder(7, "root", "python3", ("/dev/nvidiactl",), pod_uid=UID)),
        (pod(), Holder(7, "root", "python3", ("/dev/nvidia2",))),
        # It has gone since.
        (privileged("other", "1b4e28ba-2fa1-11d2-883f-0016d3cca427"), OPEN),
    ],
)
def test_who_may_have_a_gpu_open(found: dict[str, Any], holder: Holder) -> None:
    assert gpu_access(facts([found], holder)) == []


def test_without_the_processes_nothing_is_proved() -> None:
    with pytest.raises(CannotAsk, match=r"open is not known; see nodes\.processes"):
        gpu_access(facts([pod()], known=False))


@pytest.mark.parametrize("given", [Allocations({UID: ("GPU-1",)}), Allocations({}, frozenset({UID}))])
def test_what_the_kubelet_gave_under_another_name_is_the_pods(given: Allocations) -> None:
    assert gpu_access(facts([pod()], OPEN, given=given)) == []


@pytest.mark.parametrize(
    ("spec", "reach"),
    [
        ({"containers": [{"securityContext": {"privileged": True}}]}, "privileged"),
        ({"initContainers": [{"securityContext": {"privileged": True}}]}, "privileged"),
        ({"volumes": [{"hostPath": {"path": "/dev/"}}]}, "mounts '/dev'"),
        ({"volumes": [{"hostPath": {"path": "/dev/nvidia0"}}]}, "mounts '/dev/nvidia0'"),
        ({"volumes": [{"hostPath": {"path": "/"}}]}, "mounts '/'"),
        (
            {
                "volumes": [
                    {"hostPath": {"path": "/dev/shm"}},
                    {"hostPath": {"path": "/var"}},
                    {"emptyDir": {}},
                ]
            },
            "",
        ),
        ({"containers": [{"securityContext": {"privileged": False}}, {}]}, ""),
    ],
)
def test_pods_that_could_use_gpus_are_only_noted(spec: dict[str, Any], reach: str) -> None:
    found = {**pod(ownerReferences=[AGENT]), "spec": spec}
    said = _access(facts([found]))
    assert said.get("can_use_gpus", []) == (
        [{"pod": "team/debug", "owner": "DaemonSet 'agent'", "reach": reach}] if reach else []
    )
    assert gpu_access(facts([found])) == []


def test_a_note_is_short_and_leaves_the_clusters_own_out() -> None:
    assert _access(facts([pod(namespace="kube-flannel"), pod(namespace="gpusmith-system")])) == {}
    (note,) = _access(facts([privileged(f"p-{number}", str(number)) for number in range(7)]))["notes"]
    assert note.startswith(
        "these pods can use GPUs that the scheduler gave to others: 'team/p-0' (privileged, no controller), "
    )
    assert note.endswith("'team/p-4' (privileged, no controller) and 2 more")
