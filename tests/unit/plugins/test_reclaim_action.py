"""Action plugin reclaim: from the lists of a cluster and Prometheus' answers to what is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpusmith.gpu.plugins.action import reclaim

from gpusmith.cluster.api import ApiRefused
from gpusmith.cluster.web import Silent
from gpusmith.errors import GpusmithError
from tests.unit.reclaim.objects import NODES, NOW, made, pod

ASKED: dict[str, Any] = {
    "kubeconfig": "k", "prometheus": "managed", "prometheus_url": "", "namespace": "m",
    "idle_min": 60, "grace_min": 30, "max_pods": 5, "jobs": False,
}  # fmt: skip


class World:
    """A cluster with an idle StatefulSet in a namespace that allows it, and one in another."""

    def __init__(self) -> None:
        self.allowed, self.refuses, self.silent, self.busy = ["a"], 0, False, 0.0
        self.top = made("StatefulSet", "s")
        other = made("StatefulSet", "t", namespace="b")
        self.lists = {
            "/api/v1/pods": [pod("s-0", self.top), pod("t-0", other, namespace="b")],
            "/api/v1/nodes": NODES,
            "/apis/apps/v1/statefulsets": [self.top, other],
        }
        self.patches: list[Any] = []
        self.events: list[Any] = []
        self.asked: list[str] = []

    def items(self, path: str, cut: Any = None, /, **query: str) -> list[Any]:
        self.asked.append(path)
        if path == "/api/v1/namespaces":
            assert query == {"labelSelector": "gpusmith.io/reclaim=allowed"}
            return [{"metadata": {"name": name}} for name in self.allowed]
        return [row for row in self.lists.get(path, ()) if cut is None or cut(row)]

    def patch(self, path: str, body: Any, manager: str) -> None:
        if self.refuses:
            raise ApiRefused("It may not patch that.", "", self.refuses)
        self.patches.append((path, body, manager))
        self.top["metadata"]["annotations"] = body["metadata"]["annotations"]

    def create(self, path: str, body: Any) -> None:
        self.events.append((path, body))

    def query(self, text: str) -> list[Any]:
        if self.silent:
            raise Silent("connection refused")
        metric = {"node": "n1", "UUID": "U", "namespace": "a", "pod": "s-0"}
        value = NOW if "time()" in text else self.busy if "max_over_time" in text else 1000
        return [{"metric": metric, "value": [NOW, str(value)]}]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    found = World()
    monkeypatch.setattr(reclaim, "Cluster", lambda _: found)
    monkeypatch.setattr(reclaim, "prometheus_of", lambda *_: found)
    return found


def acted(dest: Path, check: bool = False, **asked: Any) -> dict[str, Any]:
    action = object.__new__(reclaim.ActionModule)
    result: dict[str, Any] = action.act({**ASKED, "dest": str(dest), **asked}, check)
    return result


def notes(result: dict[str, Any]) -> str:
    return "\n".join(result["verdict"]["the cluster"]["notes"])


def test_it_warns_and_then_acts_and_then_has_nothing_to_do(world: World, tmp_path: Path) -> None:
    path = tmp_path / "reports" / "reclaim.json"
    look = acted(path, check=True)
    assert (look["changed"], world.patches, world.events, path.exists()) == (True, [], [], False)
    assert look["verdict"]["the cluster"]["changes"] == {"objects": ["a statefulset/s warned"]}
    first = acted(path, grace_min=0)
    assert (first["changed"], len(world.patches), len(world.events)) == (True, 1, 1)
    assert [row["name"] for row in json.loads(path.read_text())["owners"]] == ["s"]
    # Of the same moment, it is the same run.
    world.top["metadata"]["annotations"] = {"gpusmith.io/idle-since": "2027-01-15T07:00:00Z"}
    second = acted(path, grace_min=0)
    assert world.patches[1][1]["spec"] == {"replicas": 0}
    assert "To bring it back: kubectl -n a scale statefulset/s --replicas=2" in notes(second)
    world.lists["/api/v1/pods"] = []
    third = acted(path, grace_min=0)
    assert (third["changed"], len(world.patches), len(world.events)) == (False, 2, 2)
    assert "No pod holds a GPU in a." in notes(third)


def test_one_list_of_each_kind(world: World, tmp_path: Path) -> None:
    acted(tmp_path / "r.json")
    assert len(world.asked) == len(set(world.asked)) == 9


def test_without_a_namespace_that_allows_it_nobody_is_asked(world: World, tmp_path: Path) -> None:
    world.allowed = []
    found = acted(tmp_path / "r.json")
    assert (found["changed"], world.asked) == (False, ["/api/v1/namespaces"])
    assert "kubectl label namespace NAME gpusmith.io/reclaim=allowed" in notes(found)


def test_without_prometheus_nothing_is_done(world: World, tmp_path: Path) -> None:
    world.top["metadata"]["annotations"] = {"gpusmith.io/idle-since": "2027-01-15T07:00:00Z"}
    world.silent = True
    with pytest.raises(GpusmithError, match="Prometheus does not answer: connection refused"):
        acted(tmp_path / "r.json")
    assert (world.patches, world.events) == ([], [])


def test_use_is_no_change(world: World, tmp_path: Path) -> None:
    world.busy = 0.4
    found = acted(tmp_path / "r.json")
    assert (found["changed"], world.patches) == (False, [])
    assert "pod 's-0' used its GPUs" in notes(found)


def test_what_somebody_changed_meanwhile_is_told_and_no_failure(world: World, tmp_path: Path) -> None:
    world.refuses = 409
    found = acted(tmp_path / "r.json")
    assert (found["changed"], "failed" in found) == (False, False)
    assert "not done, since somebody changed it meanwhile" in notes(found)


def test_a_right_that_lacks_fails_the_run(world: World, tmp_path: Path) -> None:
    world.refuses = 403
    found = acted(tmp_path / "r.json")
    assert (found["changed"], found["failed"], found["msg"]) == (False, True, "It may not patch that.")


def test_what_was_done_is_told_although_no_report_can_be_written(world: World, tmp_path: Path) -> None:
    (tmp_path / "full").write_text("")
    found = acted(tmp_path / "full" / "reclaim.json")
    assert (found["failed"], found["changed"]) == (True, True)
    assert "reclaim.json' cannot be written" in found["msg"]
    assert any("statefulset/s" in line for line in found["verdict"]["the cluster"]["notes"])
