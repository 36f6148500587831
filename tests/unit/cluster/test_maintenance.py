"""A node is emptied without taking GPUs from anybody, and as disruption budgets allow."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.cluster import dra, maintenance
from gpusmith.cluster.api import ApiRefused, ApiUnreachable
from gpusmith.cluster.maintenance import Emptied, NodeInUse
from gpusmith.errors import GpusmithError
from tests.unit.cluster.conftest import Memory, Time
from tests.unit.objects import resource_claim

NODE = "/api/v1/nodes/gpu-2"


def pod(
    name: str, owner: str = "ReplicaSet", gpus: int = 0, phase: str = "Running", **metadata: Any
) -> dict[str, Any]:
    owners = [{"kind": owner}] if owner else []
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    return {
        "metadata": {"namespace": "team", "name": name, "ownerReferences": owners, **metadata},
        "spec": {"nodeName": "gpu-2", "containers": [{"resources": {"limits": limits}}]},
        "status": {"phase": phase},
    }


def path(name: str) -> str:
    return f"/api/v1/namespaces/team/pods/{name}"


def cluster(*pods: dict[str, Any], unschedulable: bool = False) -> Memory:
    node = {"metadata": {"name": "gpu-2"}, "spec": {"unschedulable": True} if unschedulable else {}}
    return Memory({NODE: node, **{path(row["metadata"]["name"]): row for row in pods}})


def empty(memory: Memory, time: Time, check: bool = False) -> Emptied:
    return maintenance.empty(memory.cluster, "gpu-2", 300.0, check, time.sleep, time.clock)


def cordoned(memory: Memory) -> bool:
    return bool(memory.objects[NODE]["spec"].get("unschedulable"))


def test_a_free_node_is_emptied(time: Time) -> None:
    daemon, mirror = (
        pod("daemon", "DaemonSet"),
        pod("mirror", "Node", annotations={"kubernetes.io/config.mirror": "x"}),
    )
    memory = cluster(pod("web"), pod("done", "", gpus=1, phase="Succeeded"), daemon, mirror)
    assert empty(memory, time) == Emptied(True, True, ("team/web", "team/done"))
    assert cordoned(memory)
    assert {path("daemon"), path("mirror")} < set(memory.objects)
    assert path("web") not in memory.objects
    assert empty(memory, time) == Emptied(True, False, ())


@pytest.mark.parametrize("check", [False, True])
def test_pods_with_gpus_are_named_before_anything_is_changed(check: bool, time: Time) -> None:
    memory = cluster(pod("web"), pod("train", gpus=2), pod("daemon", "DaemonSet", gpus=1))
    with pytest.raises(NodeInUse, match=r"hold GPUs: 'team/train', 'team/daemon'\. Nothing was changed"):
        empty(memory, time, check)
    assert memory.done == []
    assert not cordoned(memory)


@pytest.mark.parametrize("was", [False, True])
def test_a_holder_that_slips_in_takes_our_cordon_back_and_no_other(was: bool, time: Time) -> None:
    memory = cluster(unschedulable=was)
    looks = 0

    def slips_in() -> None:
        nonlocal looks
        looks += 1
        if looks == 2:
            memory.objects[path("late")] = pod("late", gpus=1)

    memory.at_list = slips_in
    if was:
        assert empty(memory, time).cordoned is False
        assert cordoned(memory)
        return
    with pytest.raises(NodeInUse, match="'team/late'"):
        empty(memory, time)
    assert [method for method, _ in memory.done] == ["PATCH", "PATCH"]
    assert not cordoned(memory)


def test_a_server_that_vanishes_after_the_cordon_leaves_no_cordon(time: Time) -> None:
    memory = cluster()

    def vanishes() -> None:
        if cordoned(memory):
            raise ApiUnreachable("The API server does not answer.")

    memory.at_list = vanishes
    with pytest.raises(ApiUnreachable):
        empty(memory, time)
    assert not cordoned(memory)


def test_a_pod_that_nobody_would_make_anew_is_refused(time: Time) -> None:
    memory = cluster(pod("mine", owner=""))
    with pytest.raises(NodeInUse, match="no controller would make anew: 'team/mine'"):
        empty(memory, time)
    assert memory.done == []


def test_a_disruption_budget_is_waited_for(time: Time) -> None:
    memory = cluster(pod("web"), pod("other"))
    memory.refusals["EVICT", path("web")] = [429, 429, 429]
    assert empty(memory, time).evicted == ("team/web", "team/other")
    assert len(time.slept) == 4


def test_a_budget_that_never_allows_it_ends_with_the_deadline(time: Time) -> None:
    memory = cluster(pod("web"))
    memory.refusals["EVICT", path("web")] = [429] * 999
    with pytest.raises(
        GpusmithError,
        match=r"Waited 300 s for the pods of node 'gpu-2'.*'team/web': .*is cordoned.*kubectl uncordon",
    ):
        empty(memory, time)
    assert time.now == 300.0
    assert cordoned(memory)


def test_a_refusal_that_does_not_pass_is_said_at_once(time: Time) -> None:
    memory = cluster(pod("web"))
    memory.refusals["EVICT", path("web")] = [403]
    with pytest.raises(ApiRefused):
        empty(memory, time)
    assert time.slept == []


def test_a_pod_that_is_ending_is_waited_for_and_not_asked_again(time: Time) -> None:
    memory = cluster(pod("web", deletionTimestamp="2026-01-01T00:00:00Z"))
    time_sleep = time.sleep

    def ends(seconds: float) -> None:
        time_sleep(seconds)
        memory.objects.pop(path("web"), None)

    found = maintenance.empty(memory.cluster, "gpu-2", 300.0, False, ends, time.clock)
    assert found.evicted == ("team/web",)
    assert ("EVICT", path("web")) not in memory.done


def test_check_mode_says_what_would_go(time: Time) -> None:
    memory = cluster(pod("web"), pod("daemon", "DaemonSet"))
    assert empty(memory, time, check=True) == Emptied(True, True, ("team/web",))
    assert memory.done == []


def test_a_node_that_has_left_is_no_failure(time: Time) -> None:
    assert empty(Memory({}), time) == Emptied(present=False)
    assert maintenance.remove(Memory({}).cluster, "gpu-2", 60.0) is False
    assert maintenance.must_be_free(Memory({}).cluster, "gpu-2") is False


def test_a_node_of_the_control_plane_stays(time: Time) -> None:
    memory = cluster(pod("etcd", "Node", annotations={"kubernetes.io/config.mirror": "x"}))
    memory.objects[NODE]["metadata"]["labels"] = {"node-role.kubernetes.io/control-plane": ""}
    for refused in (lambda: empty(memory, time), lambda: maintenance.must_be_free(memory.cluster, "gpu-2")):
        with pytest.raises(NodeInUse, match="'gpu-2' is of the control plane"):
            refused()
    assert memory.done == []


def test_pods_with_gpus_count_also_where_the_node_was_deleted(time: Time) -> None:
    memory = cluster(pod("train", gpus=2))
    del memory.objects[NODE]
    for refused in (lambda: empty(memory, time), lambda: maintenance.must_be_free(memory.cluster, "gpu-2")):
        with pytest.raises(NodeInUse, match="hold GPUs: 'team/train'"):
            refused()


def test_a_pod_that_was_made_anew_elsewhere_is_left_alone(time: Time) -> None:
    memory = cluster(pod("db-0", "StatefulSet", uid="old"))
    delete = memory.delete

    def made_anew(where: str, *words: Any, **more: Any) -> bool:
        if where == path("db-0"):
            again = pod("db-0", "StatefulSet", uid="new")
            again["spec"]["nodeName"] = "gpu-1"
            memory.objects[where] = again
        return delete(where, *words, **more)

    memory.__dict__["delete"] = made_anew
    assert maintenance.remove(memory.cluster, "gpu-2", 60.0, False, time.sleep, time.clock) is True
    assert set(memory.objects) == {path("db-0")}


@pytest.mark.parametrize("there", [True, False], ids=["node", "killed-before"])
def test_a_node_that_leaves_takes_its_pods_with_it(there: bool, time: Time) -> None:
    mirror = pod("mirror", "Node", annotations={"kubernetes.io/config.mirror": "x"})
    elsewhere = pod("elsewhere", "DaemonSet")
    elsewhere["spec"]["nodeName"] = "gpu-1"
    memory = cluster(pod("kube-proxy", "DaemonSet"), mirror, elsewhere)
    if not there:
        del memory.objects[NODE]
    assert maintenance.remove(memory.cluster, "gpu-2", 60.0, False, time.sleep, time.clock) is True
    assert set(memory.objects) == {path("elsewhere")}
    # While there is a Node, the pods of DaemonSets are made anew.
    assert memory.done[0] == ("DELETE", NODE)
    # Nobody is there who could end them.
    assert memory.graces == {0}
    assert maintenance.remove(memory.cluster, "gpu-2", 60.0, False, time.sleep, time.clock) is False


def test_a_pod_that_stays_is_named(time: Time) -> None:
    memory = cluster(pod("kube-proxy", "DaemonSet"))
    stays = memory.delete

    def delete(where: str, grace_s: int | None = None, dry_run: bool = False, uid: str | None = None) -> bool:
        return stays(where, grace_s, dry_run or where == path("kube-proxy"), uid)

    memory.__dict__["delete"] = delete
    with pytest.raises(
        GpusmithError,
        match=r"last seen: 'team/kube-proxy'\. The node itself has left\. Look at their finalizers",
    ):
        maintenance.remove(memory.cluster, "gpu-2", 60.0, False, time.sleep, time.clock)
    assert time.now == 60.0


def test_check_mode_removes_nothing() -> None:
    memory = cluster(pod("kube-proxy", "DaemonSet"))
    before = dict(memory.objects)
    assert maintenance.remove(memory.cluster, "gpu-2", 60.0, check=True) is True
    assert memory.objects == before


def test_a_node_that_is_needed_is_refused_without_a_change() -> None:
    memory = cluster(pod("web"), pod("train", gpus=2))
    with pytest.raises(NodeInUse, match="'team/train'"):
        maintenance.must_be_free(memory.cluster, "gpu-2")
    assert memory.done == []
    assert maintenance.must_be_free(cluster(pod("web")).cluster, "gpu-2") is True


def test_a_pod_that_holds_a_gpu_by_a_claim_keeps_the_node(time: Time) -> None:
    claiming = pod("train")
    claiming["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "one"}]
    memory = cluster(claiming)
    memory.objects[f"{dra.CLAIMS}/one"] = resource_claim("one", "gpu-0", place="gpu-2")
    named = r"'team/train' \(by ResourceClaim 'one', device 'gpu-0' of driver 'gpu\.nvidia\.com'\)\. Nothing was changed"
    for refused in (lambda: empty(memory, time), lambda: maintenance.must_be_free(memory.cluster, "gpu-2")):
        with pytest.raises(NodeInUse, match=named):
            refused()
    assert memory.done == []
