"""That quotas are kept is proved by asking for more, and by nothing less."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.cluster.api import ApiRefused
from gpusmith.errors import ToolError
from gpusmith.tenants import proof
from gpusmith.tenants.objects import Tenants
from tests.unit.cluster.conftest import Memory

QUOTA = "/api/v1/namespaces/a/resourcequotas/gpusmith-gpus"
EXCEEDED = 'pods "x" is forbidden: exceeded quota: gpusmith-gpus, requested: requests.nvidia.com/gpu=3'


class Api(Memory):
    """A cluster with one team, whose pods it answers with words; without any it admits them.

    Attributes:
        says: what is said of a pod.
        late: how often the quota is not counted yet.
        asked_for: GPUs of the pods.
    """

    def __init__(self, hard: str = "8", used: str = "6") -> None:
        super().__init__({QUOTA: {"status": {"hard": {proof.KEY: hard}, "used": {proof.KEY: used}}}})
        self.says, self.late, self.asked_for = EXCEEDED, 0, list[str]()

    def get(self, path: str) -> dict[str, Any] | None:
        self.late -= 1
        return {} if self.late >= 0 else super().get(path)

    def call(self, method: str, path: str, body: Any, query: Any, patience: Any) -> None:
        assert (method, path, query) == ("POST", "/api/v1/namespaces/a/pods", {"dryRun": "All"})
        self.asked_for.append(body["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
        if self.says:
            raise ApiRefused(self.says, "", 403)


def prove(api: Api) -> list[str]:
    return proof.prove(api.cluster, Tenants({"a": {"gpus": 8}}), lambda _: None)


@pytest.mark.parametrize(
    ("used", "asked"),
    [("6", "3"), ("8", "1"), ("9", "1"), ("0", "9")],
    ids=["some", "none left", "over", "all"],
)
def test_one_more_than_is_left_is_asked_for(used: str, asked: str) -> None:
    api = Api(used=used)
    assert (prove(api), api.asked_for) == ([], [asked])


def test_thousands_are_written_as_the_api_server_does() -> None:
    api = Api("1k", "1k")
    proof.prove(api.cluster, Tenants({"a": {"gpus": 1000}}), lambda _: None)
    assert api.asked_for == ["1"]


def test_it_waits_until_the_quota_is_counted() -> None:
    api = Api()
    api.late = 2
    assert (prove(api), api.asked_for) == ([], ["3"])


def test_a_limit_of_the_policy_comes_first() -> None:
    api = Api()
    api.says = (
        "ValidatingAdmissionPolicy 'gpusmith-gpu-nodes' with binding 'gpusmith-gpu-nodes' denied request: 1"
    )
    assert prove(api) == []


def test_a_quota_that_refuses_for_its_cpu_proves_nothing_of_gpus() -> None:
    api = Api()
    api.says = EXCEEDED.replace("nvidia.com/gpu=3", "cpu=100m, used: requests.nvidia.com/gpu=6")
    (note,) = prove(api)
    assert "Whether the quota of team 'a' is kept, nobody could say" in note
    api.says = EXCEEDED.replace("gpusmith-gpus", "gpusmith-gpus-high").replace(
        "requests.n", "pods=1,requests.n"
    )
    assert prove(api) == []


def test_a_quota_that_is_not_kept_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "COUNTED_S", 0.0)
    api = Api()
    api.says = ""
    with pytest.raises(ToolError, match="a pod of team 'a' gets 3 GPUs, with 6 of 8 in use"):
        prove(api)
    # One of another number is not the inventory's.
    with pytest.raises(ToolError, match="'a/gpusmith-gpus' is not counted"):
        prove(Api(hard="4"))


def test_another_refusal_proves_nothing() -> None:
    api = Api()
    api.says = "a webhook refuses it"
    (note,) = prove(api)
    assert note.endswith("nobody could say: a webhook refuses it")
