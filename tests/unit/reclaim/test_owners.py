"""Who made pods with GPUs, and whether that may be touched."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.reclaim.owners import Facts, Owner, moment, owners
from tests.unit.reclaim.objects import LONG_AGO, NODES, NOW, made, pod


def found(
    *pods: dict[str, Any], made_by: tuple[Any, ...] = (), jobs: bool = False, **lists: Any
) -> list[Owner]:
    return owners(Facts(pods, **{"nodes": NODES, "made": made_by, **lists}), NOW, jobs)


def of_deployment(**metadata: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    deployment = made("Deployment", "d", **metadata)
    return deployment, made("ReplicaSet", "d-1", deployment)


def test_all_pods_of_a_deployment_are_one() -> None:
    deployment, old = of_deployment()
    new = made("ReplicaSet", "d-2", deployment)
    (owner,) = found(
        pod("p1", old), pod("p2", new, gpus=4), pod("q", old, gpus=0), made_by=(deployment, old, new)
    )
    assert (owner.title, owner.gpus, owner.barred, owner.keep) == ("a deployment/d", 5, "", "")
    assert [row.name for row in owner.pods] == ["p1", "p2"]
    assert (owner.path, owner.replicas) == ("/apis/apps/v1/namespaces/a/deployments/d", 2)


@pytest.mark.parametrize(("kind", "path"), [("StatefulSet", "apps/v1"), ("ReplicaSet", "apps/v1")])
def test_what_nothing_made_may_be_touched(kind: str, path: str) -> None:
    top = made(kind, "x")
    (owner,) = found(pod("p", top), made_by=(top,))
    assert (owner.barred, owner.path) == ("", f"/apis/{path}/namespaces/a/{kind.lower()}s/x")


@pytest.mark.parametrize(
    ("kinds", "title"),
    [
        ((), "a pod/p"),
        (("DaemonSet",), "a daemonset/x0"),
        (("Notebook", "StatefulSet"), "a notebook/x0"),
        (("InferenceService", "Deployment", "ReplicaSet"), "a inferenceservice/x0"),
        (("Rollout", "ReplicaSet"), "a rollout/x0"),
        (("CronJob", "Job"), "a cronjob/x0"),
    ],
)
def test_what_is_not_known_is_named_and_barred(kinds: tuple[str, ...], title: str) -> None:
    chain: list[Any] = []
    for index, kind in enumerate(kinds):
        chain.append(made(kind, f"x{index}", chain[-1] if chain else None))
    known = tuple(row for row in chain if row["kind"] in ("Deployment", "StatefulSet", "ReplicaSet", "Job"))
    (owner,) = found(pod("p", chain[-1] if chain else None), made_by=known, jobs=True)
    assert (owner.title, owner.about) == (title, {})
    assert owner.barred
    assert not owner.warned


def test_a_kind_of_another_group_with_a_known_name_is_not_known() -> None:
    theirs = made("StatefulSet", "x")
    (owner,) = found(pod("p", theirs), made_by=(made("StatefulSet", "x"),))
    assert "does not know how to stop" in owner.barred


def test_an_owner_that_is_no_controller_counts() -> None:
    """Helm-like operators set references without 'controller'."""
    deployment, replicas = of_deployment()
    deployment["metadata"]["ownerReferences"] = [{"kind": "Release", "name": "r", "uid": "else"}]
    (owner,) = found(pod("p", replicas), made_by=(deployment, replicas))
    assert (owner.kind, bool(owner.barred)) == ("Release", True)


def test_jobs_are_touched_only_where_they_may_be() -> None:
    job = made("Job", "j")
    for jobs in (False, True):
        (owner,) = found(pod("p", job), made_by=(job,), jobs=jobs)
        assert ("gpu_reclaim_jobs" in owner.barred) is not jobs
    assert owner.path == "/apis/batch/v1/namespaces/a/jobs/j"


def test_a_job_of_kueue_is_kueues() -> None:
    job = made("Job", "j", labels={"kueue.x-k8s.io/queue-name": "q"})
    (owner,) = found(pod("p", job), made_by=(job,), jobs=True)
    assert owner.barred == "Kueue suspends and resumes it"


@pytest.mark.parametrize(
    ("namespace", "name", "barred"), [("a", "d", True), ("b", "d", False), ("a", "e", False)]
)
def test_a_scaler_has_the_last_word(namespace: str, name: str, barred: bool) -> None:
    deployment, replicas = of_deployment()
    target = {"kind": "Deployment", "name": name}
    scaler = {"metadata": {"name": "h", "namespace": namespace}, "spec": {"scaleTargetRef": target}}
    (owner,) = found(pod("p", replicas), made_by=(deployment, replicas), scalers=[scaler])
    assert owner.barred == ("HorizontalPodAutoscaler 'h' sets its replicas" if barred else "")


@pytest.mark.parametrize(
    ("spec", "barred"),
    [
        ({"minAvailable": 1}, True),
        ({"minAvailable": "50%"}, True),
        ({"minAvailable": 0}, False),
        ({"minAvailable": "0%"}, False),
        ({"maxUnavailable": 0}, True),
        ({"maxUnavailable": 1}, False),
        ({}, False),
    ],
)
def test_a_budget_that_keeps_pods_does(spec: dict[str, Any], barred: bool) -> None:
    deployment, replicas = of_deployment()
    budget = {
        "metadata": {"name": "b", "namespace": "a"},
        "spec": {"selector": {"matchLabels": {"x": "y"}}, **spec},
    }
    rows = (deployment, replicas)
    (owner,) = found(pod("p", replicas, labels={"x": "y"}), made_by=rows, budgets=[budget])
    assert bool(owner.barred) is barred
    (owner,) = found(pod("p", replicas), made_by=rows, budgets=[budget])
    assert not owner.barred


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("true", True),
        ("2027-01-15", True),  # the day is not over
        ("2027-01-14", False),
        ("2027-01-15T09:00:00+02:00", False),
        ("2027-01-15T09:00:00Z", True),
        ("9999-12-31", True),
        ("next week", True),  # somebody meant something
        ("false", False),
        ("", False),
    ],
)
@pytest.mark.parametrize("on", ["pod", "deployment"])
def test_a_word_of_its_people_keeps_it(value: str, kept: bool, on: str) -> None:
    mark: dict[str, Any] = {"annotations": {"gpusmith.io/keep": value}}
    deployment, replicas = of_deployment(**(mark if on == "deployment" else {}))
    rows = [pod("p", replicas), pod("q", replicas, **(mark if on == "pod" else {}))]
    (owner,) = found(*rows, made_by=(deployment, replicas))
    assert bool(owner.keep) is kept
    assert not kept or f"'gpusmith.io/keep: {value}'" in owner.keep


def test_the_copy_that_a_replica_set_has_is_nobodys_word() -> None:
    deployment, replicas = of_deployment()
    replicas["metadata"]["annotations"] = {"gpusmith.io/keep": "true"}
    (owner,) = found(pod("p", replicas), made_by=(deployment, replicas))
    assert owner.keep == ""


def only(**of_pod: Any) -> Any:
    (owner,) = found(pod("p", **of_pod))
    return owner.pods[0]


@pytest.mark.parametrize(
    ("resource", "labels"),
    [
        ("nvidia.com/gpu.shared", {}),
        ("nvidia.com/mig-1g.10gb", {}),
        ("nvidia.com/gpu", {"gpusmith.io/gpu-layout": "mps-4-as-gpu"}),
        ("nvidia.com/gpu", {"nvidia.com/gpu.replicas": "4"}),
    ],
)
def test_parts_of_gpus_prove_nothing(resource: str, labels: dict[str, str]) -> None:
    nodes = [{"metadata": {"name": "n1", "labels": labels}}]
    (owner,) = found(pod("p", resource=resource), nodes=nodes)
    assert "do not tell whose work" in owner.pods[0].strange


def test_claims_and_ends_prove_nothing() -> None:
    assert "ResourceClaims" in only(gpus=0, spec={"resourceClaims": [{"name": "c"}]}).strange
    assert only(deletionTimestamp=LONG_AGO).strange == "is being deleted"
    assert only().strange == ""


def test_a_pod_begins_when_its_init_containers_have_ended() -> None:
    assert only().started == moment(LONG_AGO)
    assert only(started="2027-01-15T07:59:00Z").started == NOW - 60
    assert only(phase="Pending").started is None


def test_who_waits_for_gpus_counts_beside_one_that_holds_some() -> None:
    top = made("StatefulSet", "s")
    waits = pod("p2", top, node="", phase="Pending")
    (owner,) = found(pod("p1", top), waits, made_by=(top,))
    assert (owner.gpus, [row.started is None for row in owner.pods]) == (1, [False, True])
    assert found(waits, made_by=(top,)) == []


def test_pods_that_ended_hold_nothing() -> None:
    assert found(pod("p", phase="Succeeded"), pod("q", phase="Failed")) == []


def test_simulated_gpus_are_those_of_nodes_that_say_so() -> None:
    assert not only().simulated
    nodes = [{"metadata": {"name": "n1", "labels": {"gpusmith.io/simulated": "true"}}}]
    (owner,) = found(pod("p"), nodes=nodes)
    assert owner.pods[0].simulated


@pytest.mark.parametrize("text", ["", "soon", "2027-13-01"])
def test_what_is_no_date_is_none(text: str) -> None:
    assert moment(text) is None
