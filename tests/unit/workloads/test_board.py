"""The board lists pods for all, and events only while a pod is slow, or not there."""

from __future__ import annotations

from typing import Any, cast

import pytest

from gpusmith.cluster.api import Cluster
from gpusmith.errors import ToolError
from gpusmith.names import WORKLOAD_LABEL
from gpusmith.wait import Deadline, Done, NotYet, WaitTimeout
from gpusmith.workloads.board import Board
from tests.unit.workloads.answers import sandbox_event


def test_a_missing_pod_makes_the_board_read_its_jobs_events(monkeypatch: pytest.MonkeyPatch) -> None:
    class Api:
        def items(self, path: str, **_: str) -> list[dict[str, Any]]:
            job = {"kind": "Job", "name": "n0-cuda"}
            return [sandbox_event("2026-01-01T00:00:02Z", "no", reason="FailedCreate", involvedObject=job)]

    board = Board(cast("Cluster", Api()), "ns")
    now = [1000.0]
    monkeypatch.setattr("gpusmith.workloads.board.time.monotonic", lambda: now[0])
    board.expect("n0-cuda")
    board._read_events({})
    assert board.job_warning("n0-cuda") is None, "it is young"
    now[0] += 20.0
    board._read_events({})
    assert str(board.job_warning("n0-cuda")) == "FailedCreate: no"


def test_events_are_listed_only_while_a_pod_is_slow_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Api:
        def items(self, path: str, **_: str) -> list[dict[str, Any]]:
            asked.append(path)
            return [sandbox_event("2026-01-01T00:00:02Z", "no cni")]

    board = Board(cast("Cluster", Api()), "ns")
    slow = {"metadata": {"name": "cuda-x"}, "spec": {"nodeName": "gpu-1"}, "status": {"phase": "Pending"}}
    now = [1000.0]
    monkeypatch.setattr("gpusmith.workloads.board.time.monotonic", lambda: now[0])
    for passed in (0.0, 5.0, 11.0, 1.0, 6.0):
        now[0] += passed
        board._read_events({"cuda": slow})
    assert asked == ["/api/v1/namespaces/ns/events"] * 2
    assert str(board.warning(slow)) == "FailedCreatePodSandBox: no cni"
    now[0] += 60.0
    board._read_events({"cuda": {**slow, "status": {"phase": "Running"}}})
    assert len(asked) == 2


def its_pod(workload: str, **status: str) -> dict[str, Any]:
    return {"metadata": {"name": f"{workload}-x", "labels": {WORKLOAD_LABEL: workload}}, "status": status}


def test_pods_are_listed_while_somebody_waits_for_them_until_they_have_ended() -> None:
    asked: list[str] = []
    pods = {name: its_pod(name, phase="Running") for name in ("cuda", "hold")}

    class Api:
        def items(self, _path: str, *, labelSelector: str) -> list[dict[str, Any]]:  # noqa: N803 - of the API
            asked.append(labelSelector)
            names = labelSelector.partition("(")[2].rstrip(")").split(",")
            return [pods[name] for name in names if name in pods]

    board = Board(cast("Cluster", Api()), "ns")
    board._look()
    assert asked == [], "nobody waits"
    for name in ("cuda", "hold", "late"):
        board.expect(name)
    board._look()
    pods["cuda"] = its_pod("cuda", phase="Succeeded")
    board._look()
    board._look()
    assert board.pod("cuda") == pods["cuda"], "it is known as it ended"
    assert asked == [f"{WORKLOAD_LABEL} in ({names})" for names in ["cuda,hold,late"] * 2 + ["hold,late"]]
    del pods["hold"]
    board._look()
    assert board.pod("hold") is None, "it was deleted"
    before = board._pods
    for name in ("cuda", "hold", "late"):
        board.forget(name)
    assert "cuda" in before, "the board's thread may be going through it"
    assert board.pod("cuda") is None, "thousands of nodes have ten each"
    board._look()
    assert len(asked) == 4
    assert not board._expected, "events are read for it no more"


def test_a_list_asks_for_no_more_names_than_an_address_has_room_for() -> None:
    asked: list[int] = []

    class Api:
        def items(self, _path: str, *, labelSelector: str) -> list[dict[str, Any]]:  # noqa: N803 - of the API
            asked.append(labelSelector.count(",") + 1)
            return []

    board = Board(cast("Cluster", Api()), "ns")
    for n in range(250):
        board.expect(f"n{n}-hold")
    board._look()
    assert asked == [100, 100, 50]


class Broken:
    """An API server that does not answer."""

    def items(self, path: str, **_: str) -> list[dict[str, Any]]:
        raise ToolError("no answer")


def test_lists_that_fail_for_long_end_the_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpusmith.workloads.board.TROUBLE_S", 0.05)
    with Board(cast("Cluster", Broken()), "ns") as board, pytest.raises(ToolError, match="no answer"):
        board.wait("a pod", "cuda", lambda _: NotYet("no pod yet"), Deadline(5))


def test_lists_that_fail_for_a_moment_are_borne() -> None:
    with (
        Board(cast("Cluster", Broken()), "ns") as board,
        pytest.raises(WaitTimeout, match="for a pod; last seen: no pod yet"),
    ):
        board.wait("a pod", "cuda", lambda _: NotYet("no pod yet"), Deadline(0.2))


def test_a_stopped_board_ends_the_waiting_at_once() -> None:
    with Board(cast("Cluster", Broken()), "ns") as board:
        board.stop()
        with pytest.raises(WaitTimeout):
            board.wait("a pod", "cuda", lambda _: NotYet("no pod yet"), Deadline(60))


def test_a_pod_is_known_by_its_workload(fake_cluster: Any) -> None:
    labels = {"gpusmith.io/workload": "n0-cuda"}
    fake_cluster.pods["n0-cuda-x"] = {
        "metadata": {"name": "n0-cuda-x", "labels": labels},
        "status": {"phase": "Running"},
    }
    with Board(fake_cluster, "ns") as board:
        found = board.wait(
            "it", "n0-cuda", lambda pod: Done(pod) if pod else NotYet("no pod yet"), Deadline(5)
        )
    assert found["metadata"]["name"] == "n0-cuda-x"
