"""A workload of several nodes: which nodes it gets, and what those are told that it does not get."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gpusmith.checks.findings import Finding, Outcome, Skip
from gpusmith.cluster.holders import Holder
from gpusmith.wait import Deadline
from gpusmith.workloads import holders, jobs
from gpusmith.workloads.judge import Judged
from gpusmith.workloads.pods import Pods
from gpusmith.workloads.register import ALL, in_order, workload
from gpusmith.workloads.waiting import PodProblem
from tests.unit.hosts import UUIDS
from tests.unit.objects import gpus
from tests.unit.workloads.answers import READY, all_passed, never_starts, outcomes

pytestmark = pytest.mark.usefixtures("register_open")
PAIR = "workloads.pair"
BUSY = replace(READY, holders=(Holder("team", "train", gpus(4)),))


@pytest.fixture(params=[False, True], ids=["", "keeps"])
def pairs(request: pytest.FixtureRequest) -> list[list[str]]:
    """The nodes of each group that a made-up workload of two nodes got."""
    got: list[list[str]] = []

    @workload(
        PAIR,
        place=85,
        proves="two nodes hold a GPU at the same time",
        fails_when="one does not",
        do="look",
        title="{gpus} GPUs on each of two nodes",
        gpus=ALL,
        nodes=2,
        after=["workloads.cuda"],
        keeps=request.param,
    )
    def pair(*nodes: Pods) -> Judged:
        got.append([pods.node.host.name for pods in nodes])
        tasks = [pods.task("pair", holders.PROGRAM, 1) for pods in nodes]
        for pods, task in zip(nodes, tasks, strict=True):
            pods.create(jobs.pod, task)
        held = [holders.held(pods, task, Deadline(5))[1] for pods, task in zip(nodes, tasks, strict=True)]
        return Judged({"held": held, "gpus": [pods.gpus for pods in nodes]})

    return got


@pytest.fixture
def deleted(fake_cluster: Any) -> list[str]:
    """What a run deletes, in order."""
    names: list[str] = []
    delete = fake_cluster.delete

    def note(path: str, **more: Any) -> None:
        names.append(path.rsplit("/", 1)[1])
        delete(path, **more)

    fake_cluster.delete = note
    return names


def test_both_nodes_at_once_and_both_give_their_gpus_back(
    run: Callable[..., Any], pairs: list[list[str]], deleted: list[str]
) -> None:
    found, _ = run(("gpu-1", "gpu-2"))
    assert pairs == [["gpu-1", "gpu-2"]]
    for name in ("gpu-1", "gpu-2"):
        assert outcomes(found[name]) == all_passed(2), found[name].findings
        evidence = found[name].findings[PAIR].evidence
        assert evidence["gpus"] == [4, 4]
        assert set(evidence["held"]) <= {*UUIDS, *(uuid.replace("GPU-0", "GPU-9") for uuid in UUIDS)}
    assert {"n0-pair", "n1-pair"} <= set(deleted[: deleted.index("gpusmith-validation-a1")])
    assert "n0-hold-1" in deleted[: deleted.index("n0-pair")], "a node's own pods hold nothing by then"


def test_each_group_is_nodes_of_its_own_and_who_is_left_over_is_not_tested(
    run: Callable[..., Any], fake_cluster: Any, pairs: list[list[str]]
) -> None:
    names = tuple(f"gpu-{n}" for n in range(1, 6))
    fake_cluster.gpus = {name: [f"GPU-{name}-{n}" for n in range(4)] for name in names}
    found, _ = run(names)
    assert sorted(pairs) == [["gpu-1", "gpu-2"], ["gpu-3", "gpu-4"]]
    assert [found[name].findings[PAIR].outcome for name in names[:4]] == [Outcome.PASSED] * 4
    left_out(found["gpu-5"].findings[PAIR], Skip.LEFT_OUT, "2 nodes with free GPUs are needed")


def left_out(finding: Finding, skip: Skip, says: str) -> None:
    assert (finding.outcome, finding.skip) == (Outcome.SKIPPED, skip), finding
    assert says in finding.cause
    assert finding.cause.startswith("Not tested: ")


def test_with_fewer_free_nodes_than_needed_it_is_not_tested(
    run: Callable[..., Any], pairs: list[list[str]]
) -> None:
    found, _ = run(("gpu-1", "gpu-2"), gpu_2=BUSY)
    assert pairs == []
    left_out(found["gpu-1"].findings[PAIR], Skip.LEFT_OUT, "left without others: 'gpu-1'")
    left_out(found["gpu-2"].findings[PAIR], Skip.LEFT_OUT, "all 4 GPUs of node 'gpu-1' are busy")
    several = {row.check for row in in_order()[1]}
    alone = {outcome for name, outcome in outcomes(found["gpu-1"]).items() if name not in several}
    assert alone == {"passed"}


def test_a_run_about_one_node_does_not_miss_it(run: Callable[..., Any], pairs: list[list[str]]) -> None:
    found, _ = run()
    assert pairs == []
    left_out(found["gpu-1"].findings[PAIR], Skip.NOT_APPLICABLE, "left without others: 'gpu-1'")


def test_a_node_whose_first_workload_did_not_run_is_in_no_group(
    run: Callable[..., Any], fake_cluster: Any, pairs: list[list[str]]
) -> None:
    never_starts(fake_cluster, "no such device", "n0-nvidia-smi-x")
    found, _ = run(("gpu-1", "gpu-2"))
    assert pairs == []
    assert found["gpu-1"].findings[PAIR].outcome is Outcome.FAILED
    assert "see workloads.nvidia-smi" in found["gpu-1"].findings[PAIR].cause
    left_out(found["gpu-2"].findings[PAIR], Skip.LEFT_OUT, "left without others: 'gpu-2'")


def test_a_node_that_fails_by_itself_takes_no_other_along(
    run: Callable[..., Any], fake_cluster: Any, pairs: list[list[str]]
) -> None:
    fake_cluster.gpus["gpu-3"] = [f"GPU-gpu-3-{n}" for n in range(4)]
    never_starts(fake_cluster, "no such device", "n0-cuda-x")
    found, _ = run(("gpu-1", "gpu-2", "gpu-3"))
    assert pairs == [["gpu-2", "gpu-3"]]
    finding = found["gpu-1"].findings[PAIR]
    assert finding.outcome is Outcome.FAILED
    assert finding.cause == "Node 'gpu-1': not tested: it fails by itself; see workloads.cuda."


def test_a_failure_is_one_of_each_node_of_the_group(
    run: Callable[..., Any], pairs: list[list[str]], monkeypatch: pytest.MonkeyPatch, deleted: list[str]
) -> None:
    def fails(*_: Any) -> Any:
        raise PodProblem("no way from one to the other", "Look at the switch.")

    monkeypatch.setattr(holders, "judge_holder", fails)
    found, _ = run(("gpu-1", "gpu-2"))
    for name in ("gpu-1", "gpu-2"):
        finding = found[name].findings[PAIR]
        assert (finding.outcome, finding.target) == (Outcome.FAILED, name)
        assert finding.cause == (
            "Nodes 'gpu-1', 'gpu-2': 4 GPUs on each of two nodes: no way from one to the other."
        )
    assert {"n0-pair", "n1-pair"} <= set(deleted[: deleted.index("gpusmith-validation-a1")])
