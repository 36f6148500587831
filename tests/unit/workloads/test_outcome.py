"""A finding per check, whatever happens to its work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from gpusmith.checks.findings import Finding, Outcome
from gpusmith.errors import ToolError
from gpusmith.problems import Problem
from gpusmith.workloads.judge import Judged
from gpusmith.workloads.node import NodeUnderTest
from gpusmith.workloads.outcome import PER_NODE, NodeChecks
from gpusmith.workloads.pods import Pods
from gpusmith.workloads.targets import Target
from gpusmith.workloads.waiting import PodProblem
from tests.unit.hosts import make_host
from tests.unit.workloads.answers import READY


@pytest.fixture
def node(said: list[str]) -> NodeChecks:
    none = cast(Any, None)
    return NodeChecks(
        NodeUnderTest(
            none, none, none, Target(make_host(), READY, frozenset({"GPU-a"})), "n0", said.append, none
        )
    )


def found(node: NodeChecks, result: Judged | Exception) -> Finding:
    def work(pods: Pods) -> Judged:
        if isinstance(result, Exception):
            raise result
        return result

    finding = node.check("workloads.cuda", "CUDA", work)
    assert node.outcome.findings == {"workloads.cuda": finding}
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
    node: NodeChecks, said: list[str], result: Any, outcome: Outcome, cause: str, evidence: dict[str, Any]
) -> None:
    finding = found(node, result)
    assert (finding.outcome, finding.cause, finding.evidence) == (outcome, cause, evidence)
    ours = "Report this as a fault of gpusmith."
    step = ours if isinstance(result, ValueError) else "Mend it." if cause else ""
    assert finding.next_step == step
    assert said == [f"gpu-1: CUDA: {outcome.value}, 0.0 s"]


def test_gpus_that_were_exercised_are_remembered(node: NodeChecks) -> None:
    found(node, Judged({}, [Problem("It is broken.", "")], ("GPU-a",)))
    assert node.outcome.tested == ("GPU-a",)
    found(node, Judged({}))
    assert node.outcome.tested == ("GPU-a",)


def test_what_was_not_made_fails(node: NodeChecks) -> None:
    made = found(node, Judged({}))
    node.rest("the disk is full.", Finding("workloads.cuda", "gpu-1", Outcome.FAILED))
    assert set(node.outcome.findings) == set(PER_NODE)
    rest = [row for row in node.outcome.findings.values() if row.check != made.check]
    assert {(row.outcome, row.cause) for row in rest} == {
        (Outcome.FAILED, "Node 'gpu-1': not tested: the disk is full.")
    }
    assert node.outcome.findings[made.check].outcome is Outcome.PASSED
