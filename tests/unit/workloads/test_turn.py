"""A finding per check, whatever happens to its work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from gpusmith.checks.findings import Finding, Outcome
from gpusmith.errors import ToolError
from gpusmith.problems import Problem
from gpusmith.wanted.offers import devices
from gpusmith.workloads.judge import Judged
from gpusmith.workloads.node import NodeUnderTest
from gpusmith.workloads.pods import Pods
from gpusmith.workloads.register import Workload
from gpusmith.workloads.targets import Target
from gpusmith.workloads.turn import Turn, is_ready, pods_of
from gpusmith.workloads.waiting import PodProblem
from tests.unit.hosts import make_host
from tests.unit.workloads.answers import READY


@pytest.fixture
def node(said: list[str]) -> NodeUnderTest:
    target, none = Target(make_host(), READY, devices({"GPU-a"})), cast(Any, None)
    return NodeUnderTest(none, none, none, target, "n0", said.append, lambda row: row.view)


def doing(result: Judged | Exception, **needs: Any) -> Workload:
    def work(pods: Pods) -> Judged:
        if isinstance(result, Exception):
            raise result
        return result

    return Workload("workloads.cuda", "CUDA", work, **{"gpus": 0, **needs})


def found(node: NodeUnderTest, result: Judged | Exception) -> Finding:
    workload = doing(result)
    Turn(workload, [pods_of(workload, node)]).take()
    finding = node.findings["workloads.cuda"]
    assert (finding.target, finding.simulated) == ("gpu-1", True)
    return replace(finding, duration_s=0)


@pytest.mark.parametrize(
    ("result", "outcome", "cause", "evidence"),
    [
        (Judged({"n": 1}), Outcome.PASSED, "", {"n": 1}),
        (Judged({"n": 1}, [Problem("It is broken.", "Mend it.", {"m": 2})]), Outcome.FAILED, "It is broken.", {"n": 1, "m": 2}),
        (PodProblem("it ended.", "Mend it.", "a\nb\n"), Outcome.FAILED, "Node 'gpu-1': CUDA: it ended.", {"log": "a\nb"}),
        (PodProblem("it ended", "Mend it."), Outcome.FAILED, "Node 'gpu-1': CUDA: it ended.", {}),
        (ToolError("no answer", "Mend it."), Outcome.ERROR, "Node 'gpu-1': CUDA: no answer", {}),
        (ValueError("x"), Outcome.ERROR, "Node 'gpu-1': CUDA: ValueError: x", {}),
    ],
)  # fmt: skip
def test_each_end_of_a_work_is_a_finding(
    node: NodeUnderTest, said: list[str], result: Any, outcome: Outcome, cause: str, evidence: dict[str, Any]
) -> None:
    finding = found(node, result)
    assert (finding.outcome, finding.cause, finding.evidence) == (outcome, cause, evidence)
    ours = "Report this as a fault of gpusmith."
    step = ours if isinstance(result, ValueError) else "Mend it." if cause else ""
    assert finding.next_step == step
    assert said == [f"gpu-1: CUDA: {outcome.value}, 0.0 s"]


def test_gpus_that_were_exercised_are_remembered(node: NodeUnderTest) -> None:
    found(node, Judged({}, [Problem("It is broken.", "")], ("GPU-a",)))
    assert node.outcome.tested == ("GPU-a",)
    found(node, Judged({}))
    assert node.outcome.tested == ("GPU-a",)


@pytest.mark.parametrize(
    ("because", "outcome"), [(Outcome.FAILED, Outcome.FAILED), (Outcome.ERROR, Outcome.SKIPPED)]
)
def test_what_comes_after_a_workload_that_blocks_is_not_made(
    node: NodeUnderTest, because: Outcome, outcome: Outcome
) -> None:
    node.blocked["workloads.nvidia-smi"] = "the disk is full.", Finding("x", "gpu-1", because)
    workload = doing(Judged({}), after=["workloads.nvidia-smi"])
    assert not is_ready(workload, node)
    finding = node.findings["workloads.cuda"]
    assert (finding.outcome, finding.cause) == (outcome, "Node 'gpu-1': not tested: the disk is full.")
    later = replace(workload, check="workloads.pytorch", after=["workloads.cuda"])
    assert not is_ready(later, node), "nor what comes after that"


def test_what_was_started_early_is_looked_at_whatever_blocks(node: NodeUnderTest) -> None:
    node.blocked["workloads.nvidia-smi"] = "the disk is full.", Finding("x", "gpu-1", Outcome.FAILED)
    early = doing(Judged({}), after=["workloads.nvidia-smi"], start=lambda pods: None)
    assert is_ready(early, node)
    assert not is_ready(replace(early, check="workloads.x", start=None, after=["workloads.cuda"]), node)


def test_pods_that_cannot_be_started_early_are_that_checks_error(node: NodeUnderTest) -> None:
    def start(pods: Pods) -> None:
        raise ToolError("no answer", "Mend it.")

    workload = doing(Judged({}), start=start)
    turn = Turn(workload, [pods_of(workload, node)])
    turn.start()
    assert node.findings == {}
    turn.take()
    assert node.findings["workloads.cuda"].outcome is Outcome.ERROR
    assert "no answer" in node.findings["workloads.cuda"].cause


def test_a_node_with_fewer_free_gpus_than_needed_is_not_tested(node: NodeUnderTest) -> None:
    assert is_ready(doing(Judged({}), gpus=4), node)
    assert not is_ready(doing(Judged({}), gpus=5), node)
    finding = node.findings["workloads.cuda"]
    assert finding.cause == "Not tested: 4 GPUs of node 'gpu-1' are free, 5 are needed."
    assert finding.outcome is Outcome.SKIPPED
