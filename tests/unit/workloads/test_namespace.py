"""The run's namespace: usable before the first pod, gone after the last."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from gpusmith.cluster.api import MISSING, ApiRefused, Cluster
from gpusmith.errors import InputError, ToolError
from gpusmith.workloads import namespace, priority, pull_secrets
from gpusmith.workloads.jobs import Run

RUN = Run("a1", "host/1/2")


class Api:
    """An API server that needs some looks until what is asked for comes true."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.done: list[str] = []
        self.made: list[dict[str, Any]] = []

    def create(self, path: str, body: dict[str, Any]) -> None:
        self.done.append(f"create {path}")
        self.made.append(body)

    def delete(self, path: str) -> None:
        self.done.append(f"delete {path}")

    def get(self, path: str) -> Any:
        if "priorityclasses" in path:
            return priority.manifest()
        self.done.append(f"get {path}")
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespace, "ACCOUNT_TICK_S", 0.01)
    monkeypatch.setattr(namespace, "GONE_TICK_S", 0.01)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespace, "ACCOUNT_WAIT_S", 0.1)
    monkeypatch.setattr(namespace, "GONE_WAIT_S", 0.1)


def test_pods_may_come_when_their_account_is_there(programs: Path) -> None:
    api = Api(None, None, {"kind": "ServiceAccount"})
    namespace.make(cast(Cluster, api), RUN, programs)
    folder = "/api/v1/namespaces/gpusmith-validation-a1"
    assert api.done == [
        "create /api/v1/namespaces", f"create {folder}/configmaps", *[f"get {folder}/serviceaccounts/default"] * 3,
    ]  # fmt: skip


def test_a_namespace_that_is_to_be_there_and_is_not_is_told_with_how_to_make_it(programs: Path) -> None:
    class Without(Api):
        def create(self, path: str, body: dict[str, Any]) -> None:
            raise ApiRefused('namespaces "team" not found', "", MISSING)

    with pytest.raises(ToolError, match="Namespace 'team' does not exist") as caught:
        namespace.make(cast(Cluster, Without()), replace(RUN, within="team"), programs)
    assert caught.value.hint.endswith("kubectl create namespace team")


def test_an_account_that_does_not_come_is_the_clusters_trouble(impatient: None, programs: Path) -> None:
    with pytest.raises(ToolError, match="service account 'default' of namespace 'gpusmith-validation-a1'"):
        namespace.make(cast(Cluster, Api(None)), RUN, programs)


def test_it_is_waited_for_until_it_is_gone() -> None:
    there = {"status": {"phase": "Terminating"}}
    api = Api(there, there, None)
    assert namespace.remove(cast(Cluster, api), "ns") == ""
    assert api.done == ["delete /api/v1/namespaces/ns", *["get /api/v1/namespaces/ns"] * 3]


def test_what_holds_it_is_said(impatient: None) -> None:
    rows = [{"status": "True", "message": "some finalizers remain"}, {"status": "False", "message": "no"}]
    left = namespace.remove(
        cast(Cluster, Api({"status": {"phase": "Terminating", "conditions": rows}})), "ns"
    )
    assert "last seen: some finalizers remain." in left
    assert "last seen: Terminating." in namespace.remove(
        cast(Cluster, Api({"status": {"phase": "Terminating"}})), "ns"
    )


def test_a_refused_deletion_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise ToolError("forbidden")

    api = Api(None)
    monkeypatch.setattr(api, "delete", refuse)
    assert namespace.remove(cast(Cluster, api), "ns") == "forbidden"


def test_a_secret_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="'gpusmith-system/registry' of 'gpusmith_image_pull_secrets'"):
        pull_secrets.copy(cast(Cluster, Api(None)), replace(RUN, pull_secrets=("registry",)))


def test_secrets_of_registries_are_copied_and_never_shown(programs: Path) -> None:
    kept = {
        "type": "kubernetes.io/dockerconfigjson",
        "metadata": {"name": "registry", "namespace": "ours", "uid": "1"},
        "data": {".dockerconfigjson": "e30="},
    }
    api = Api(kept)
    run = replace(RUN, pull_secrets=("registry",), secrets_from="ours")
    namespace.make(cast(Cluster, api), run, programs)
    assert "get /api/v1/namespaces/ours/secrets/registry" in api.done
    (copy,) = [body for body in api.made if body["kind"] == "Secret"]
    assert (copy["data"], copy["metadata"]["namespace"]) == (kept["data"], "gpusmith-validation-a1")
    assert "e30=" not in repr(run)
