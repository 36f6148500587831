"""Objects of ours: fields of others go, a second run changes nothing, what cannot be is refused before any change."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.cluster import apply
from gpusmith.cluster.api import ApiRefused, Cluster
from gpusmith.errors import GpusmithError, ToolError
from tests.unit.cluster.conftest import Answer, Memory, Server
from tests.unit.fake_cluster import NOT_IN_A_NAMESPACE

PLUGIN: dict[str, Any] = {
    "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "plugin", "namespace": "ours"},
}  # fmt: skip
CLASS: dict[str, Any] = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "nvidia"},
    "handler": "nvidia",
}
CONFIG: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "c", "namespace": "ours"},
}
SPACE: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ours"}}
PLUGIN_PATH = "/apis/apps/v1/namespaces/ours/daemonsets/plugin"
CLASS_PATH = "/apis/node.k8s.io/v1/runtimeclasses/nvidia"
CONFIG_PATH = "/api/v1/namespaces/ours/configmaps/c"


def stored(wanted: dict[str, Any], ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """An object in the cluster, with what we and somebody else set."""
    rows = [
        {"manager": "gpusmith", "operation": "Apply", "fieldsV1": ours},
        {"manager": "kubectl-edit", "operation": "Update", "fieldsV1": theirs},
    ]
    return {**wanted, "metadata": {**wanted["metadata"], "resourceVersion": "7", "managedFields": rows}}


SPACE_PATH = "/api/v1/namespaces/ours"
OBJECTS = [SPACE, CLASS, PLUGIN, CONFIG]
NAME = "DaemonSet 'ours/plugin'"


def cluster() -> Memory:
    return Memory(
        {
            SPACE_PATH: {**SPACE, "metadata": {"name": "ours", "resourceVersion": "1"}},
            PLUGIN_PATH: stored(PLUGIN, {"f:spec": {"f:a": {}}}, {"f:spec": {"f:hostPID": {}}}),
            CLASS_PATH: stored(CLASS, {"f:handler": {}}, {"f:handler": {}}),
        }
    )


def test_only_what_others_set_is_taken_over_before_the_apply() -> None:
    memory = cluster()
    assert apply.apply(memory.cluster, OBJECTS, check=False).foreign == {NAME: ["spec.hostPID"]}
    assert [path for method, path in memory.done if method == "PATCH"] == [PLUGIN_PATH]
    assert memory.done.index(("PATCH", PLUGIN_PATH)) < memory.done.index(("APPLY", PLUGIN_PATH))


def test_a_second_run_changes_nothing() -> None:
    memory = cluster()
    first = apply.apply(memory.cluster, OBJECTS, check=False)
    assert list(first.changed) == [NAME, "ConfigMap 'ours/c'"]
    again = apply.apply(memory.cluster, OBJECTS, check=False)
    assert (again.foreign, again.changed, again.left_out) == ({}, {}, [])


def test_what_a_controller_writes_meanwhile_is_no_change_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = cluster()
    apply.apply(memory.cluster, OBJECTS, check=False)
    applied = Memory.apply

    def beside(self: Memory, path: str, *words: Any, **more: Any) -> dict[str, Any]:
        answer = applied(self, path, *words, **more)
        answer["status"] = {"numberReady": 2}
        answer["metadata"]["resourceVersion"] = "99"
        return answer

    monkeypatch.setattr(Memory, "apply", beside)
    assert apply.apply(memory.cluster, OBJECTS, check=False).changed == {}


def test_a_change_is_told_with_before_and_after() -> None:
    memory = cluster()
    wanted = {**PLUGIN, "spec": {"a": 2}}
    ((name, (before, after)),) = apply.apply(memory.cluster, [wanted], check=False).changed.items()
    assert name == NAME
    assert "spec" not in before
    assert after["spec"] == {"a": 2}
    assert "resourceVersion" not in after["metadata"]


def test_fields_that_became_ours_are_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    # The next apply that does not send such a field takes it away, so that this is more than bookkeeping.
    memory = cluster()
    applied = Memory.apply

    def owned(self: Memory, path: str, *words: Any, **more: Any) -> dict[str, Any]:
        answer = applied(self, path, *words, **more)
        answer["metadata"]["managedFields"] = [
            {"manager": "gpusmith", "operation": "Apply", "fieldsV1": {"f:handler": {}, "f:more": {}}}
        ]
        return answer

    monkeypatch.setattr(Memory, "apply", owned)
    assert list(apply.apply(memory.cluster, [CLASS], check=False).changed) == ["RuntimeClass 'nvidia'"]


def test_a_class_with_another_handler_is_refused_before_anything_is_changed() -> None:
    memory = cluster()
    memory.objects[CLASS_PATH]["handler"] = "runc"
    with pytest.raises(
        GpusmithError, match=r"handler 'runc', not 'nvidia'.*kubectl delete runtimeclass nvidia"
    ):
        apply.apply(memory.cluster, OBJECTS, check=False)
    assert memory.done == []


def test_check_mode_tries_out_only() -> None:
    memory = cluster()
    first = apply.apply(memory.cluster, OBJECTS, check=True)
    assert first == apply.apply(memory.cluster, OBJECTS, check=True)
    assert first.foreign == {NAME: ["spec.hostPID"]}
    assert memory.dry == {True}


def test_check_mode_leaves_out_what_lies_in_a_namespace_that_is_not_there() -> None:
    memory = Memory({})
    found = apply.apply(memory.cluster, OBJECTS, check=True)
    assert found.left_out == [NAME, "ConfigMap 'ours/c'"]
    assert {path for _, path in memory.done} == {SPACE_PATH, CLASS_PATH}
    assert apply.apply(memory.cluster, OBJECTS, check=False).left_out == []


def test_an_object_that_changed_meanwhile_is_read_again() -> None:
    memory = cluster()
    memory.refusals["PATCH", PLUGIN_PATH] = [409, 409]
    assert apply.take_over(memory.cluster, PLUGIN_PATH, check=False) == ["spec.hostPID"]
    assert memory.asked == [PLUGIN_PATH] * 3


@pytest.mark.parametrize("refusals", [[403], [409] * apply.TRIES])
def test_a_refusal_that_stays_is_no_silence(refusals: list[int]) -> None:
    memory = cluster()
    memory.refusals["PATCH", PLUGIN_PATH] = refusals
    with pytest.raises(ApiRefused):
        apply.apply(memory.cluster, OBJECTS, check=False)


def _object(version: str, kind: str, **more: Any) -> dict[str, Any]:
    place = {} if kind in NOT_IN_A_NAMESPACE else {"namespace": "ours"}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "x", **place}, **more}


@pytest.mark.parametrize(
    ("version", "kind", "path"),
    [
        ("v1", "Service", "/api/v1/namespaces/ours/services/x"),
        ("v1", "Secret", "/api/v1/namespaces/ours/secrets/x"),
        ("v1", "ResourceQuota", "/api/v1/namespaces/ours/resourcequotas/x"),
        ("v1", "LimitRange", "/api/v1/namespaces/ours/limitranges/x"),
        ("apps/v1", "StatefulSet", "/apis/apps/v1/namespaces/ours/statefulsets/x"),
        (
            "networking.k8s.io/v1",
            "NetworkPolicy",
            "/apis/networking.k8s.io/v1/namespaces/ours/networkpolicies/x",
        ),
        ("scheduling.k8s.io/v1", "PriorityClass", "/apis/scheduling.k8s.io/v1/priorityclasses/x"),
        (
            "admissionregistration.k8s.io/v1",
            "ValidatingAdmissionPolicy",
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/x",
        ),
    ],
)
def test_any_kind_of_the_cluster_is_applied_and_removed(version: str, kind: str, path: str) -> None:
    memory, wanted = Memory({SPACE_PATH: SPACE}), _object(version, kind)
    apply.apply(memory.cluster, [wanted], check=False)
    assert path in memory.objects
    assert apply.remove(memory.cluster, [wanted], 0.0, check=False) == [apply.name_of(wanted)]
    assert path not in memory.objects


@pytest.mark.parametrize("check", [False, True])
def test_an_unknown_kind_is_refused_before_anything_is_changed(check: bool) -> None:
    memory, monitor = cluster(), _object("monitoring.example.com/v1", "Monitor")
    with pytest.raises(
        GpusmithError, match=r"kind 'Monitor' of 'monitoring.example.com/v1', as which Monitor 'ours/x'"
    ):
        apply.apply(memory.cluster, [*OBJECTS, monitor], check)
    assert memory.done == []
    # Of such a kind nothing can be there.
    assert apply.remove(memory.cluster, [monitor], 0.0, check) == []
    assert apply.ours(memory.cluster, [monitor]) == []


RULES = _object(
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    spec={
        "group": "nfd.example.com", "names": {"kind": "Rule", "plural": "rules"}, "scope": "Cluster",
        "versions": [{"name": "v1alpha1"}],
    },
)  # fmt: skip
RULE: dict[str, Any] = {"apiVersion": "nfd.example.com/v1alpha1", "kind": "Rule", "metadata": {"name": "x"}}
RULE_PATH = "/apis/nfd.example.com/v1alpha1/rules/x"


def test_a_kind_that_comes_with_its_objects_is_waited_for() -> None:
    memory = Memory({})
    slept: list[float] = []
    memory.established = lambda: bool(slept)
    # In whatever order they are written.
    objects = [CONFIG, RULE, RULES, SPACE]
    done = apply.apply(memory.cluster, objects, check=False, sleep=slept.append)
    assert list(done.changed) == [
        "Namespace 'ours'", "CustomResourceDefinition 'x'", "ConfigMap 'ours/c'", "Rule 'x'",
    ]  # fmt: skip
    assert len(slept) == 1
    assert RULE_PATH in memory.objects


def test_check_mode_leaves_out_what_is_of_a_kind_that_is_not_there() -> None:
    memory = Memory({SPACE_PATH: SPACE})
    done = apply.apply(memory.cluster, [RULES, RULE, CONFIG], check=True)
    assert done.left_out == ["Rule 'x'"]
    assert len(done.changed) == 2


def test_what_others_need_is_deleted_last() -> None:
    memory = Memory({})
    objects = [SPACE, RULES, RULE, CONFIG]
    apply.apply(memory.cluster, objects, check=False)
    memory.done.clear()
    apply.remove(memory.cluster, objects, 0.0, check=False)
    assert [path.split("/")[-2] for _, path in memory.done] == [
        "rules", "configmaps", "customresourcedefinitions", "namespaces",
    ]  # fmt: skip


def test_a_secret_is_not_shown() -> None:
    memory = Memory({SPACE_PATH: SPACE})
    ((before, after),) = apply.apply(
        memory.cluster, [_object("v1", "Secret", data={"key": "c2VjcmV0"})], check=False
    ).changed.values()
    assert "c2VjcmV0" not in str(after)
    assert list(after["data"]) == ["key"]
    ((first, second),) = apply.apply(
        memory.cluster, [_object("v1", "Secret", data={"key": "b3RoZXI="})], check=False
    ).changed.values()
    assert first["data"] != second["data"]
    assert before == {}


def test_removal_says_what_was_there_and_waits_until_it_is_gone() -> None:
    memory = cluster()
    assert apply.remove(memory.cluster, OBJECTS, 0.0, check=True) == [
        "RuntimeClass 'nvidia'", NAME, "Namespace 'ours'",
    ]  # fmt: skip
    assert memory.done == []
    assert len(apply.remove(memory.cluster, OBJECTS, 0.0, check=False)) == 3
    assert memory.objects == {}
    assert apply.remove(memory.cluster, OBJECTS, 0.0, check=False) == []


def test_what_is_still_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = cluster()
    monkeypatch.setattr(memory, "delete", lambda path: path in memory.objects)
    with pytest.raises(ToolError, match=r"RuntimeClass 'nvidia'.* still there"):
        apply.remove(memory.cluster, [CLASS], 0.0, check=False)


def test_what_others_made_under_a_name_of_ours_is_not_ours() -> None:
    memory = cluster()
    memory.objects[PLUGIN_PATH]["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "gpusmith"}
    memory.objects[CONFIG_PATH] = {**CONFIG, "metadata": {"name": "c", "labels": {"app": "theirs"}}}
    assert apply.ours(memory.cluster, OBJECTS) == [PLUGIN]


def test_a_class_under_a_former_name_is_told() -> None:
    memory = cluster()
    memory.objects[CLASS_PATH.replace("nvidia", "old")] = {**CLASS, "metadata": {"name": "old"}}
    assert apply.former_classes(memory.cluster, OBJECTS) == ["old"]
    without = [row for row in OBJECTS if row["kind"] != "RuntimeClass"]
    assert apply.former_classes(memory.cluster, without) == [], "what has no RuntimeClass replaces none"


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (403, 'admission webhook "validation.gatekeeper.sh" denied the request: you must provide labels: {"owner"}'),
        (400, 'admission webhook "validate.kyverno.svc-fail" denied the request: limits are required'),
        (422, "ValidatingAdmissionPolicy 'demo' with binding 'demo' denied request: no team label"),
    ],
)  # fmt: skip
def test_a_policy_that_refuses_an_object_is_named_with_what_satisfies_it(
    client: Cluster, server: Server, status: int, said: str
) -> None:
    kinds = {"resources": [{"name": "daemonsets", "kind": "DaemonSet", "namespaced": True}]}
    missing = {"kind": "Status", "message": "not found"}
    refusal: Answer = (status, {}, {"kind": "Status", "message": said})
    server.will((200, {}, kinds), (404, {}, missing), refusal, refusal)
    with pytest.raises(ApiRefused) as error:
        apply.apply(client, [PLUGIN], check=False)
    assert server.seen[-1][0] == "PATCH"
    assert f"daemonsets/plugin': {status}" in str(error.value)
    assert said in str(error.value)
    assert "'gpu_operands_labels'" in str(error.value)


def test_labels_of_the_site_come_and_go() -> None:
    memory = cluster()
    plugin = {**PLUGIN, "spec": {"template": {"metadata": {"labels": {"app": "p"}}, "spec": {}}}}
    wanted = [apply.of_site(row, {"team": "gpu", "app": "x"}, ["registry"]) for row in (SPACE, plugin)]
    assert list(apply.apply(memory.cluster, wanted, check=False).changed) == ["Namespace 'ours'", NAME]
    assert apply.apply(memory.cluster, wanted, check=False).changed == {}
    pod = memory.objects[PLUGIN_PATH]["spec"]["template"]
    assert (pod["metadata"]["labels"], pod["spec"]) == (
        {"team": "gpu", "app": "p"},  # by which its selector finds it
        {"imagePullSecrets": [{"name": "registry"}]},
    )
    without = [apply.of_site(row, {}, []) for row in (SPACE, plugin)]
    assert without == [SPACE, plugin]
    assert NAME in apply.apply(memory.cluster, without, check=False).changed
    assert memory.objects[PLUGIN_PATH]["spec"] == plugin["spec"]
