"""What pods of the cluster in memory say, and how their containers may fail to start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpusmith.checks.findings import Skip
from gpusmith.cluster.views import NodeView
from gpusmith.suite import monitoring
from gpusmith.workloads import board, node, pending
from gpusmith.workloads.outcome import NodeOutcome, per_node
from tests.unit.objects import gpus

READY = NodeView("gpu-1", True, (), False, gpus(4), gpus(4), {}, {}, ())


def short_waits(patch: pytest.MonkeyPatch) -> None:
    """A run that waits for a cluster in memory."""
    for name in ("INTERVALS", "RELOAD_S", "RESEND_S"):
        patch.setattr(monitoring, name, 0)
    patch.setattr(board, "TICK_S", 0.01)
    patch.setattr(pending, "STAYS_PENDING_S", 0.05)
    patch.setattr(node, "OTHERS_WAIT_S", 0.1)
    patch.setattr(node, "OTHERS_TICK_S", 0.02)


def answer(**changes: Any) -> Callable[[dict[str, str], list[str]], Any]:
    def make(env: dict[str, str], uuids: list[str]) -> Any:
        good = {
            "ok": True,
            "simulated": True,
            "uuid": uuids[0] if uuids else None,
            "uuids": uuids,
            "devices": [{"uuid": uuid} for uuid in uuids],
            "slowdowns": {uuid: {"reasons": 4, "looks": 1} for uuid in uuids},
        }
        return {**good, **changes}

    return make


def start_error(message: str) -> dict[str, Any]:
    ended = {"exitCode": 128, "reason": "StartError", "message": message}
    return {"phase": "Failed", "containerStatuses": [{"state": {"terminated": ended}}]}


def ends_as(
    fake_cluster: Any, names: tuple[str, ...], log: str, status: dict[str, Any] | None = None
) -> None:
    """Pods of these names print that; with a status, that becomes theirs."""
    started = fake_cluster.run

    def start(name: str, pod: dict[str, Any], *rest: Any) -> None:
        started(name, pod, *rest)
        if name in names:
            fake_cluster.logs[name] = log
            pod["status"] = status or pod["status"]

    fake_cluster.run = start


def never_starts(fake_cluster: Any, message: str, *names: str) -> None:
    """Pods of these names end as if the runtime had not started their container."""
    started = fake_cluster.run

    def give_back(name: str, pod: dict[str, Any], *rest: Any) -> None:
        started(name, pod, *rest)
        if name in names:
            fake_cluster.given.pop(name, None)

    fake_cluster.run = give_back
    ends_as(fake_cluster, names, "", start_error(message))


def before_each_creation(fake_cluster: Any, do: Callable[[dict[str, Any]], object]) -> None:
    """Show a test every manifest that the run creates."""
    create = fake_cluster.create

    def show(path: str, body: dict[str, Any]) -> Any:
        do(body)
        return create(path, body)

    fake_cluster.create = show


def all_passed(nodes: int = 1) -> dict[str, str]:
    """Outcomes of a run on simulated GPUs: nothing is measured or preempted, and jobs over several nodes do not apply to one."""
    left_out = {"workloads.performance", "workloads.preemption"}
    if nodes == 1:
        left_out |= {"workloads.pytorch-nodes", "workloads.tensorflow-nodes"}
    return {check: "passed" for check in per_node() if check not in left_out}


def outcomes(found: NodeOutcome) -> dict[str, str]:
    """How the checks that apply to a node ended."""
    rows = found.findings.items()
    return {name: row.outcome.value for name, row in rows if row.skip is not Skip.NOT_APPLICABLE}


def sandbox_event(when: str, message: str, **changes: Any) -> dict[str, Any]:
    return {
        "type": "Warning", "reason": "FailedCreatePodSandBox", "message": message, "lastTimestamp": when,
        "involvedObject": {"kind": "Pod", "name": "cuda-x"}, **changes,
    }  # fmt: skip
