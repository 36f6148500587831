"""A kubelet's sign of life."""

from __future__ import annotations

from typing import Any, cast

import pytest

from gpusmith.cluster import heartbeat
from gpusmith.cluster.api import Cluster
from gpusmith.wait import Deadline, WaitTimeout

RESTART = heartbeat.renewed({"spec": {"renewTime": "2026-11-22T10:00:05.400000Z"}})


class Api:
    """Answers one after another; the last one stays."""

    def __init__(self, *rows: tuple[str, str, str]) -> None:
        self.rows = list(rows)

    def get(self, path: str) -> dict[str, Any]:
        renewed, told, ready = self.rows[0]
        if path == "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/gpu-1":
            return {"spec": {"renewTime": renewed}}
        assert path == "/api/v1/nodes/gpu-1"
        row = {"type": "Ready", "status": ready, "lastHeartbeatTime": told, "message": "no network."}
        return {"status": {"conditions": [row]}}

    def pass_on(self, _seconds: float) -> None:
        if len(self.rows) > 1:
            self.rows.pop(0)


OLD = ("2026-11-22T10:00:05.300000Z", "2026-11-22T09:58:00Z", "True")
RENEWED = ("2026-11-22T10:00:06.100000Z", "2026-11-22T09:58:00Z", "True")
NOT_READY = ("2026-11-22T10:00:06.100000Z", "2026-11-22T10:00:06Z", "False")
GOOD = ("2026-11-22T10:00:06.100000Z", "2026-11-22T10:00:06Z", "True")


def wait(*rows: tuple[str, str, str], ready: bool = True, anew: bool = True) -> int:
    api, ticks = Api(*rows), 0.0

    def sleep(seconds: float) -> None:
        nonlocal ticks
        ticks += 1
        api.pass_on(seconds)

    deadline = Deadline(20, lambda: ticks * 5)
    heartbeat.wait(cast(Cluster, api), "gpu-1", RESTART, deadline, ready=ready, anew=anew, sleep=sleep)
    return int(ticks)


def test_all_of_it_is_waited_for() -> None:
    assert wait(OLD, RENEWED, NOT_READY, GOOD) == 3


def test_who_restarted_no_kubelet_goes_by_its_lease() -> None:
    assert wait(OLD, RENEWED, anew=False) == 1
    assert wait(OLD, NOT_READY, ready=False) == 1


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (OLD, "its Lease was not renewed since the restart"),
        (RENEWED, "has not reported since the restart"),
        (NOT_READY, "no network"),
    ],
)
def test_a_timeout_names_what_is_missing(row: tuple[str, str, str], says: str) -> None:
    with pytest.raises(WaitTimeout, match=says):
        wait(row)


def test_a_node_without_a_lease_was_never_renewed() -> None:
    assert heartbeat.renewed(None) == heartbeat.renewed({"spec": {}}) == 0.0
