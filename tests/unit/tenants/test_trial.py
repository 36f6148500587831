"""What is made of the API server's judgement of the policy: the cases, pods that run, and that nothing of a trial stays."""

from __future__ import annotations

import copy
import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from gpusmith.cluster.api import ApiRefused
from gpusmith.errors import InputError, ToolError
from gpusmith.names import POLICY, TRIAL_LABEL
from gpusmith.tenants import cluster, trial
from gpusmith.tenants.objects import Tenants
from gpusmith.tenants.policy import GROUP
from gpusmith.tenants.trial import CASES, Case
from tests.unit.cluster.conftest import Memory

BOUND = f"/apis/{GROUP}/validatingadmissionpolicybindings/{POLICY}"
PRIVILEGED: dict[str, Any] = {"securityContext": {"privileged": True}}


def pod(name: str, owner: str = "", **container: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "web"}
    if owner:
        metadata["ownerReferences"] = [{"kind": "ReplicaSet", "name": owner, "controller": True}]
    return {"metadata": metadata, "spec": {"containers": [{"name": "main", "image": "i", **container}]}}


class Api(Memory):
    """An API server that judges the cases as they are meant, and other pods as a test says.

    Attributes:
        says: what the policy says of a case, instead of what it should.
        of_others: what the policy says of another pod.
        status: of its refusals.
        blind: how many pods it admits before it judges by the policy.
        tried: pods that it was asked for.
        claims: whether it has Dynamic Resource Allocation.
    """

    claims = True

    def __init__(self, *pods: dict[str, Any]) -> None:
        super().__init__({})
        self.pods = list(pods)
        self.says: dict[str, str] = {}
        self.of_others: Callable[[dict[str, Any]], str] = lambda _: ""
        self.status, self.blind, self.begins = 403, 0, "'{policy}' denied request: "
        self.tried: list[dict[str, Any]] = []

    def items(self, path: str, cut: Any = None, /, **query: str) -> list[dict[str, Any]]:
        if path != "/api/v1/pods":
            return super().items(path, cut, **query)
        return [kept for row in copy.deepcopy(self.pods) if (kept := cut(row)) is not None]

    def serves(self, version: str) -> bool:
        return self.claims

    def call(self, method: str, path: str, body: Any, query: Any, patience: Any) -> None:
        assert (method, query, patience.total_s) == ("POST", {"dryRun": "All"}, 0)
        self.blind -= 1
        space, mark = path.split("/")[4], body["metadata"]["labels"][TRIAL_LABEL]
        (policy,) = (key.rpartition("/")[2] for key in self.objects if f"policies/{POLICY}-{mark}" in key)
        case = next((row for row in CASES if self.is_of(row, space, mark, body)), None)
        if case is None:
            self.tried.append(body)
        words = self.of_others(body) if case is None else self.says.get(case.name, case.says)
        if words and self.blind < 0:
            raise ApiRefused(self.begins.format(policy=policy) + words, "", self.status)

    @staticmethod
    def is_of(case: Case, space: str, mark: str, body: Any) -> bool:
        made = trial._pod(case, mark)
        owners = [row["metadata"].get("ownerReferences") for row in (made, body)]
        return (made["metadata"]["namespace"], made["spec"]) == (space, body["spec"]) and owners[0] == owners[
            1
        ]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "IN_FORCE_S", 0.0)


def wanted(mode: str) -> Tenants:
    return Tenants({"a": {"gpus_per_pod": 4}}, mode=mode, exempt=("gpusmith-system",))


def judged(api: Api, mode: str = "deny", check: bool = False) -> list[str]:
    try:
        return cluster.judged(api.cluster, wanted(mode), check)
    finally:
        assert api.objects == {}, "something of a trial is left"


def test_what_is_judged_right_may_be_bound_and_leaves_nothing() -> None:
    api = Api()
    assert judged(api) == []
    made = {path for verb, path in api.done if verb == "APPLY"}
    assert len(made) == 4
    assert all("trial" in path or POLICY in path for path in made)
    assert made == {path for verb, path in api.done if verb == "DELETE"}


@pytest.mark.parametrize(
    ("name", "says", "words"),
    [
        ("privileged", "", "case 'privileged' is admitted"),
        ("privileged", "no GPU", "case 'privileged' is refused: no GPU."),
        ("a claim", "asks for no GPU", "case 'a claim' is refused: asks for no GPU."),
        ("a network's DaemonSet", "Privileged", "case 'a network's DaemonSet' is refused: Privileged."),
    ],
)
def test_a_case_that_is_judged_wrong_is_named(name: str, says: str, words: str) -> None:
    api = Api()
    api.says[name] = says
    with pytest.raises(ToolError, match="was not bound") as caught:
        judged(api)
    assert words in caught.value.message


def test_without_claims_no_pod_has_one_and_none_is_tried() -> None:
    api = Api()
    api.claims, api.says["a claim"] = False, "asks for no GPU"
    assert judged(api) == []


def test_the_policy_takes_a_while_until_it_is_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "IN_FORCE_S", 60.0)
    api, slept = Api(), list[float]()
    api.blind = 3
    trial.judge(api.cluster, wanted("deny").policy, slept.append)
    assert len(slept) == 3


def test_a_refusal_by_another_one_proves_nothing() -> None:
    api = Api()
    api.begins = "a webhook of '{policy}x' says: "
    with pytest.raises(ToolError, match="case 'privileged' is answered with: a webhook"):
        judged(api)


def test_pods_that_run_and_would_be_refused_keep_it_from_being_bound() -> None:
    runs = [pod(f"p{index}", "web-1", **PRIVILEGED) for index in range(3)]
    api = Api(*runs, pod("bare", **PRIVILEGED), pod("plain"))
    api.of_others = lambda _: "Privileged containers: 'main'."
    with pytest.raises(InputError) as caught:
        judged(api)
    assert caught.value.message.splitlines()[1:] == [
        "ReplicaSet 'web/web-1': Privileged containers: 'main'.",
        "Pod 'web/bare': Privileged containers: 'main'.",
    ]
    assert "'gpu_tenants_policy_exempt'" in caught.value.message
    assert len(api.tried) == 2, "pods that are alike are tried once, and those without anything not at all"
    assert judged(api, "warn") == [
        f"Policy '{POLICY}' would refuse ReplicaSet 'web/web-1': Privileged containers: 'main'.",
        f"Policy '{POLICY}' would refuse Pod 'web/bare': Privileged containers: 'main'.",
    ]


def test_pods_that_ended_are_not_asked_about() -> None:
    api = Api({**pod("done", **PRIVILEGED), "status": {"phase": "Succeeded"}})
    api.of_others = lambda _: "no"
    assert judged(api) == []


@pytest.mark.parametrize(
    "spec",
    [
        {"tolerations": [{"operator": "Exists"}]},
        {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]},
        {"volumes": [{"name": "v", "hostPath": {"path": "/dev"}}]},
        {"initContainers": [{"name": "i", "image": "i", **PRIVILEGED}]},
        {
            "initContainers": [
                {"name": "i", "image": "i", "securityContext": {"capabilities": {"add": ["all"]}}}
            ]
        },
        {
            "initContainers": [
                {"name": "i", "image": "i", "resources": {"limits": {"nvidia.com/gpu.shared": "1"}}}
            ]
        },
    ],
)
def test_what_rules_look_at_is_in_the_copy(spec: dict[str, Any]) -> None:
    runs = pod("p", env=[{"name": "secret", "value": "x"}])
    runs["spec"].update(spec, nodeName="gpu-1", priority=7)
    api = Api(runs)
    judged(api)
    (tried,) = api.tried
    assert spec.items() <= tried["spec"].items()
    assert tried["metadata"].keys() == {"namespace", "generateName", "labels"}
    assert "env" not in tried["spec"]["containers"][0]
    assert not {"nodeName", "priority"} & tried["spec"].keys()


def test_of_many_the_first_are_named() -> None:
    api = Api(*(pod(f"p{index}", image=f"i{index}", **PRIVILEGED) for index in range(25)))
    api.of_others = lambda _: "no"
    rows = judged(api, "warn")
    assert (len(rows), rows[-1]) == (21, "And 5 more.")


@pytest.mark.parametrize(("status", "told"), [(403, 0), (400, 1), (422, 1)])
def test_what_cannot_be_tried_is_named(status: int, told: int) -> None:
    api = Api(pod("p", **PRIVILEGED))

    def answer(_: Any) -> str:
        api.begins, api.status = "", status
        return "a webhook does not support dry run"

    api.of_others = answer
    rows = judged(api)
    assert len(rows) == told
    assert not told or "Pod 'web/p'" in rows[0]


def test_check_mode_makes_nothing_and_says_so() -> None:
    api = Api(pod("p", **PRIVILEGED))
    assert "a run without --check says" in judged(api, check=True)[0]
    assert (api.done, api.tried) == ([], [])


def test_what_is_bound_already_is_not_tried_again() -> None:
    api = Api(pod("p", **PRIVILEGED))
    api.of_others = lambda _: "no"
    kinds = {
        "ValidatingAdmissionPolicyBinding": BOUND,
        "ValidatingAdmissionPolicy": BOUND.replace("policybindings", "policies"),
    }
    there = {kinds[row["kind"]]: row for row in wanted("deny").policies}
    api.objects = dict(there)
    assert cluster.judged(api.cluster, wanted("deny"), False) == []
    assert (api.done, api.tried) == ([], [])
    # With another one in its place it is.
    api.objects[BOUND]["spec"]["validationActions"] = ["Warn", "Audit"]
    with pytest.raises(InputError, match="was not bound"):
        cluster.judged(api.cluster, wanted("deny"), False)
    assert api.objects == there


def test_what_a_killed_run_left_goes_and_what_runs_beside_stays() -> None:
    now, spaces = dt.datetime.now(dt.UTC), "/api/v1/namespaces/"
    api = Api()
    for name, age in (("old", 16), ("young", 1)):
        made = f"{now - dt.timedelta(minutes=age):%Y-%m-%dT%H:%M:%SZ}"
        labels = {TRIAL_LABEL: name}
        metadata = {"name": name, "creationTimestamp": made, "labels": labels}
        api.objects[spaces + name] = {"kind": "Namespace", "metadata": metadata}
    cluster.judged(api.cluster, wanted("deny"), False)
    assert set(api.objects) == {spaces + "young"}


def test_a_cluster_without_such_policies_is_refused_and_one_without_a_policy_is_not_asked() -> None:
    api = Api()
    api.kinds = lambda version, again=False: {}  # type: ignore[method-assign]
    (found,) = cluster.refusals(api.cluster, wanted("warn"))
    assert "which Kubernetes has since 1.30" in found.message
    assert list(cluster.refusals(api.cluster, Tenants({"a": {"gpus": 1}}))) == []
    assert cluster.left(api.cluster, Tenants()) == ([], [])


@pytest.mark.parametrize("more", [{}, {"mode": "deny", "exempt": ("a",)}])
def test_a_limit_that_nothing_keeps_is_refused(more: dict[str, Any]) -> None:
    (found,) = cluster.refusals(Api().cluster, Tenants({"a": {"gpus_per_pod": 4}, "b": {}}, **more))
    assert found.message.startswith("'gpus_per_pod' of team 'a' would do nothing")
