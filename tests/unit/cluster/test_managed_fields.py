"""Who set what: additions and changes of others are found, what controllers and restarts write is not."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.cluster.managed_fields import additions, taken_over

CONTAINER = 'k:{"name":"nvidia-device-plugin"}'


def template(**parts: Any) -> dict[str, Any]:
    """Fields of a pod template."""
    return {"f:spec": {"f:template": {f"f:{name}": value for name, value in parts.items()}}}


def variables(*names: str) -> dict[str, Any]:
    """Fields of environment variables."""
    return {f'k:{{"name":"{name}"}}': {".": {}, "f:name": {}, "f:value": {}} for name in names}


def container(**parts: Any) -> dict[str, Any]:
    """Fields of the plugin's container."""
    found = {f"f:{name}": value for name, value in parts.items()}
    return template(spec={"f:containers": {CONTAINER: found}})


def env(*names: str) -> dict[str, Any]:
    """Fields of environment variables, in their place."""
    return container(env=variables(*names))


def row(manager: str, fields: dict[str, Any], operation: str = "Update", **more: str) -> dict[str, Any]:
    return {
        "manager": manager, "operation": operation, "apiVersion": "apps/v1", "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1", "fieldsV1": fields, **more,
    }  # fmt: skip


def ours(fields: dict[str, Any]) -> dict[str, Any]:
    return row("gpusmith", fields, "Apply")


PORT = 'k:{"containerPort":8080,"protocol":"TCP"}'


def applied(*names: str) -> dict[str, Any]:
    """What we set, with these environment variables."""
    parts = {
        ".": {},
        "f:name": {},
        "f:env": variables(*names),
        "f:ports": {PORT: {".": {}, "f:containerPort": {}}},
    }
    labels: dict[str, Any] = {"f:labels": {"f:app.kubernetes.io/name": {}}}
    spec = template(metadata=labels, spec={"f:containers": {CONTAINER: parts}})["f:spec"]
    return ours({"f:metadata": labels, "f:spec": {"f:selector": {}, **spec}})


OURS = applied("A")
RESTART = row(
    "kubectl-rollout",
    template(metadata={"f:annotations": {".": {}, "f:kubectl.kubernetes.io/restartedAt": {}}}),
)
STATUS = row(
    "kube-controller-manager",
    {
        "f:metadata": {"f:annotations": {"f:deployment.kubernetes.io/revision": {}}},
        "f:status": {"f:replicas": {}},
        "f:spec": {"f:replicas": {}},
    },
    subresource="status",
)
NOTED = row("kubectl-annotate", {"f:metadata": {"f:annotations": {"f:team": {}}, "f:finalizers": {}}})
SPOT = "spec.template.spec.containers[nvidia-device-plugin]"


def daemonset(*others: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "nvidia-device-plugin", "managedFields": [OURS, *others]},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (env("DP_DISABLE_HEALTHCHECKS"), [f"{SPOT}.env[DP_DISABLE_HEALTHCHECKS]"]),
        (container(image={}), [f"{SPOT}.image"]),
        (template(spec={"f:hostNetwork": {}, "f:volumes": {".": {}, 'k:{"name":"v"}': {".": {}, "f:name": {}}}}),
         ["spec.template.spec.hostNetwork", "spec.template.spec.volumes"]),
        (container(ports={PORT: {"f:hostPort": {}}}), [f"{SPOT}.ports[8080,TCP].hostPort"]),
        (template(metadata={"f:annotations": {".": {}, "f:cdi.k8s.io/x": {}}}), ["spec.template.metadata.annotations"]),
        ({"f:scheduling": {".": {}, "f:nodeSelector": {}}, "f:data": {"f:a.conf": {}}}, ["data", "scheduling"]),
        ({"f:set": {'v:"x"': {}}}, ["set"]),
    ],
)  # fmt: skip
def test_what_others_set_is_named(fields: dict[str, Any], says: list[str]) -> None:
    assert additions(daemonset(row("kubectl-set", fields))) == says


@pytest.mark.parametrize(
    "other",
    [
        STATUS,
        NOTED,
        RESTART,
        row("argo", env("A"), "Apply"),
        row("kubectl-edit", container(env={".": {}})),
        row("old", {}),
    ],
    ids=["of the status", "of metadata", "a restart", "ours as well", "a list of ours", "nothing"],
)
def test_what_is_nobodys_fault_is_not(other: dict[str, Any]) -> None:
    assert additions(daemonset(other)) == []


def test_an_object_that_we_never_applied_is_all_foreign() -> None:
    found = {"metadata": {"managedFields": [row("velero", env("A"))]}}
    assert additions(found) == ["spec"]
    assert additions({"metadata": {}}) == []


def test_gpusmith_counts_as_itself_only_where_it_applied() -> None:
    assert additions(daemonset(row("gpusmith", env("B")))) == [f"{SPOT}.env[B]"]


def test_what_others_set_becomes_ours_and_nobody_elses() -> None:
    both = row("kubectl-set", env("A", "B"))
    rows = taken_over(daemonset(RESTART, row("kubectl-set", env("B")), both, NOTED, STATUS))
    # What others share with us, or wrote where they may, stays theirs.
    assert rows[1:] == [RESTART, row("kubectl-set", env("A")), NOTED, STATUS]
    assert rows[0] == applied("A", "B")


def test_after_the_apply_nothing_foreign_is_left() -> None:
    rows = taken_over(daemonset(RESTART, row("kubectl-set", env("A", "B")), NOTED, STATUS))
    # An apply makes its own entry what it sends.
    found = daemonset()
    found["metadata"]["managedFields"] = [OURS, *rows[1:]]
    assert additions(found) == []


def test_an_object_that_we_never_applied_gets_an_entry_of_ours() -> None:
    found = {
        "apiVersion": "v1",
        "metadata": {
            "managedFields": [row("x", {"f:data": {"f:a": {}}, "f:metadata": {"f:labels": {"f:b": {}}}})]
        },
    }
    first, second = taken_over(found)
    assert first == {
        "manager": "gpusmith", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:a": {}}},
    }  # fmt: skip
    assert second == row("x", {"f:metadata": {"f:labels": {"f:b": {}}}})


def test_a_field_and_what_lies_in_it_both_stay_members() -> None:
    fields: dict[str, Any] = {"f:spec": {"f:a": {".": {}, "f:b": {}}, "f:c": {}}}
    found = {"apiVersion": "v1", "metadata": {"managedFields": [ours({}), row("x", fields)]}}
    assert taken_over(found)[0]["fieldsV1"] == fields


def test_a_runtime_class_that_the_gpu_operator_made_first_is_as_we_want_it() -> None:
    theirs: dict[str, Any] = {
        "f:handler": {},
        "f:metadata": {"f:labels": {"f:app": {}}, "f:ownerReferences": {'k:{"uid":"1"}': {}}},
    }
    rows = [
        {"manager": "gpu-operator", "operation": "Update", "fieldsV1": theirs},
        {"manager": "gpusmith", "operation": "Apply", "fieldsV1": {"f:handler": {}}},
    ]
    assert additions({"metadata": {"name": "nvidia", "managedFields": rows}}) == []
