"""How many GPUs are taken at the same time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from gpusmith.checks.findings import Outcome, Skip
from gpusmith.errors import InputError, ToolError
from gpusmith.workloads import budget
from gpusmith.workloads.budget import Budget, budget_of
from gpusmith.workloads.targets import Target
from tests.unit.hosts import make_host
from tests.unit.objects import gpus
from tests.unit.workloads.answers import READY


@pytest.mark.parametrize(("text", "wanted"), [(None, 0), ("8", 8), ("10%", 4), ("1%", 1), ("100%", 40)])
def test_it_is_a_number_or_a_part_of_all(text: str | None, wanted: int) -> None:
    assert budget_of(text, 40) == wanted


@pytest.mark.parametrize("text", ["0", "-1", "8 GPUs", "%", "101%", "10%%", ""])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="'--gpu-budget'"):
        budget_of(text, 40)


def node(count: int) -> Any:
    return SimpleNamespace(target=Target(make_host(), replace(READY, allocatable=gpus(count)), None))


class Work:
    """Notes the most GPUs that were in work at once."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.lock = threading.Lock()

    def __call__(self, row: Any) -> int:
        count: int = sum(each.target.gpus for each in (row if isinstance(row, tuple) else [row]))
        with self.lock:
            self.now += count
            self.most = max(self.most, self.now)
        threading.Event().wait(0.02)
        with self.lock:
            self.now -= count
        return count


@pytest.mark.parametrize(("limit", "most"), [(8, 8), (9, 8), (3, 4), (0, 24)])
def test_nodes_wait_for_room(limit: int, most: int) -> None:
    work, rows = Work(), [(node(4), node(4)) if limit == 8 and place == 0 else node(4) for place in range(6)]
    with ThreadPoolExecutor(max_workers=6) as pool:
        done = list(Budget(pool, limit, lambda: False).map(work, rows))
    assert sum(done) == sum(4 * (len(row) if isinstance(row, tuple) else 1) for row in rows)
    assert work.most <= most if limit else work.most > 8


def test_what_is_larger_than_the_budget_is_left_out(run: Any, fake_cluster: Any) -> None:
    """A node by itself, and a group of nodes of which each has room."""
    names = ("gpu-1", "gpu-2")
    found, _ = run(names, gpu_budget=3)
    reasons = {outcome.reason for outcome in found.values()}
    assert {"Not tested: node 'gpu-1' has 4 GPUs, and --gpu-budget allows 3."} < reasons
    assert not fake_cluster.pods
    found, _ = run(names, gpu_budget=4)
    for outcome in found.values():
        left = {name: row for name, row in outcome.findings.items() if row.outcome is not Outcome.PASSED}
        for name in ("workloads.performance", "workloads.preemption"):
            assert left.pop(name).skip is Skip.NOT_APPLICABLE
        assert set(left) == {"workloads.pytorch-nodes", "workloads.tensorflow-nodes"}
        assert {row.skip for row in left.values()} == {Skip.LEFT_OUT}
        assert (
            "the nodes of a group have 8 GPUs, and --gpu-budget allows 4"
            in left["workloads.pytorch-nodes"].cause
        )


def test_a_run_that_ends_begins_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "LOOK_S", 0.01)
    begun: list[Any] = []
    goes, ends = threading.Event(), threading.Event()

    def work(row: Any) -> None:
        begun.append(row)
        ends.set()
        goes.wait(5)

    with ThreadPoolExecutor(max_workers=2) as pool:
        rows = Budget(pool, 4, ends.is_set).map(work, [node(4), node(4)])
        ends.wait(5)
        threading.Timer(0.1, goes.set).start()
        with pytest.raises(ToolError, match="The run ends"):
            list(rows)
    assert len(begun) == 1
