"""Our device plugin is started anew on one node: its own pod alone, and the next one is waited for."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.cluster import device_plugin
from gpusmith.errors import ToolError
from tests.unit.cluster.conftest import Memory
from tests.unit.objects import operand

SPACE = "gpusmith-system"
LOOKED, BEFORE, AFTER = 1767225600.0, "2025-12-31T00:00:00Z", "2026-01-01T00:01:00Z"


def pod(name: str, started: str = BEFORE, owner: str = "nvidia-device-plugin", place: str = "gpu-1") -> Any:
    found = operand("nvidia-device-plugin")
    found["metadata"].update(
        name=name, uid=f"uid-{name}", ownerReferences=[{"kind": "DaemonSet", "name": owner}]
    )
    found["spec"]["nodeName"] = place
    found["status"]["containerStatuses"][0]["state"] = {"running": {"startedAt": started}}
    return found


def path(name: str) -> str:
    return f"/api/v1/namespaces/{SPACE}/pods/{name}"


def restart(memory: Memory, check: bool = False, timeout_s: float = 5.0) -> list[str]:
    def sleep(_: float) -> None:
        """The DaemonSet makes another pod meanwhile."""
        memory.objects[path("new")] = pod("new", AFTER)

    return device_plugin.restart(memory.cluster, SPACE, "gpu-1", LOOKED, timeout_s, check, sleep)


def cluster(**pods: Any) -> Memory:
    return Memory({path(name): found for name, found in pods.items()})


def test_its_pod_on_the_node_goes_and_no_other_one() -> None:
    memory = cluster(
        old=pod("old"), gfd=pod("gfd", owner="gpu-feature-discovery"), other=pod("other", place="gpu-2")
    )
    assert restart(memory) == ["Pod 'gpusmith-system/old'"]
    assert memory.done == [("DELETE", path("old"))]
    assert set(memory.objects) == {path(name) for name in ("gfd", "other", "new")}


def test_check_mode_names_it_and_deletes_nothing() -> None:
    memory = cluster(old=pod("old"))
    assert restart(memory, check=True) == ["Pod 'gpusmith-system/old'"]
    assert memory.done == []


@pytest.mark.parametrize(
    "state", [{"running": {"startedAt": AFTER}}, {"waiting": {"reason": "ContainerCreating"}}]
)
def test_one_that_started_since_is_only_waited_for(state: dict[str, Any]) -> None:
    fresh = pod("fresh")
    fresh["status"]["containerStatuses"][0].update(state=state, ready="running" in state)
    if "waiting" in state:
        fresh["status"]["conditions"] = []
    memory = cluster(fresh=fresh)
    assert restart(memory) == []
    assert path("fresh") in memory.objects


def test_one_that_backs_off_is_started_at_once() -> None:
    crashed = pod("crashed")
    crashed["status"].update(conditions=[])
    crashed["status"]["containerStatuses"][0].update(
        state={"waiting": {"reason": "CrashLoopBackOff"}}, ready=False
    )
    memory = cluster(crashed=crashed)
    assert restart(memory) == ["Pod 'gpusmith-system/crashed'"]


def test_none_that_comes_back_is_told_with_what_was_seen() -> None:
    with pytest.raises(ToolError, match="it has no pod there") as told:
        device_plugin.restart(
            cluster(old=pod("old")).cluster, SPACE, "gpu-1", LOOKED, 0.0, check=False, sleep=lambda _: None
        )
    assert "kubectl -n gpusmith-system get pods -o wide" in told.value.hint
