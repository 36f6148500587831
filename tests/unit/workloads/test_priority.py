"""The suite's pods take nobody's place: their PriorityClass is there and harmless, or no pod is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from gpusmith.cluster.api import ApiRefused, Cluster
from gpusmith.errors import ToolError
from gpusmith.workloads import priority


class Api:
    """PriorityClasses; a status refuses the call."""

    def __init__(self, there: Any = None, on_get: int = 0, on_create: int = 0) -> None:
        self.there, self.on_get, self.on_create = there, on_get, on_create
        self.made: list[Any] = []

    def get(self, path: str) -> Any:
        if self.on_get:
            raise ApiRefused("refused", "", self.on_get)
        return self.there

    def create(self, path: str, body: Any) -> Any:
        if self.on_create:
            if self.on_create == 409:
                self.there = priority.manifest()
            raise ApiRefused("refused", "", self.on_create)
        self.made.append((path, body))
        return body


def ensure(api: Api) -> Api:
    priority.ensure(cast(Cluster, api))
    return api


def test_it_is_made_once() -> None:
    assert ensure(Api()).made == [("/apis/scheduling.k8s.io/v1/priorityclasses", priority.manifest())]
    assert ensure(Api(priority.manifest())).made == []
    # Another run has made it between the two calls.
    assert ensure(Api(on_create=409)).made == []


@pytest.mark.parametrize("api", [Api(on_get=403), Api(on_create=403)])
def test_who_may_not_make_it_is_told_who_can(api: Api) -> None:
    with pytest.raises(ToolError, match="is missing or may not be read") as caught:
        ensure(api)
    assert "kubectl apply -f validation/rbac.yml" in caught.value.hint


def test_other_trouble_is_the_apis() -> None:
    with pytest.raises(ApiRefused):
        ensure(Api(on_get=500))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"value": 0}, "has value 0"),
        ({"value": 1000}, "has value 1000"),
        ({"preemptionPolicy": None}, "'PreemptLowerPriority'"),
        ({"preemptionPolicy": "PreemptLowerPriority"}, "'PreemptLowerPriority'"),
    ],
)
def test_one_that_harms_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ToolError, match=says) as caught:
        ensure(Api({**priority.manifest(), **changes}))
    assert "kubectl delete priorityclass gpusmith-validation" in caught.value.hint


def test_it_is_the_same_as_in_the_file_for_administrators(root: Path) -> None:
    rows = yaml.safe_load_all((root / "validation" / "rbac.yml").read_text())
    assert [row for row in rows if row["kind"] == "PriorityClass"] == [
        priority.manifest(),
        priority.preempting(),
    ]
