"""A pod of a higher class takes the place of one of the suite's."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.checks.findings import Outcome
from gpusmith.names import PREEMPTING_CLASS
from gpusmith.workloads import priority
from gpusmith.workloads.judge import Expected
from gpusmith.workloads.preemption import judge

CHECK = "workloads.preemption"
ASKED = {"validation_preemption": True}


def test_only_where_the_inventory_asks_for_it(run: Any, fake_cluster: Any) -> None:
    found = run()[0]["gpu-1"].findings[CHECK]
    assert (found.outcome, "validation_preemption" in found.cause) == (Outcome.SKIPPED, True)
    assert PREEMPTING_CLASS not in fake_cluster.classes


def test_one_pod_gives_way_and_its_gpu_is_given(run: Any, fake_cluster: Any) -> None:
    found = run(values=ASKED)[0]["gpu-1"].findings[CHECK]
    assert found.outcome is Outcome.PASSED, found.cause
    assert list(found.evidence["gave_way"].values()) == [found.evidence["got"]]
    made = fake_cluster.classes[PREEMPTING_CLASS]
    assert made["value"] == priority.VALUE + 1, "below all but the suite's own"


def test_a_free_gpu_proves_nothing(run: Any, fake_cluster: Any) -> None:
    freed = fake_cluster.schedule

    def schedule() -> None:
        # Somebody's pod ends before the scheduler has looked for a victim.
        if "n0-preempts" in fake_cluster.pods and "n0-preempts" not in fake_cluster.given:
            fake_cluster.gpus["gpu-1"].append("GPU-of-others")
        freed()

    fake_cluster.schedule = schedule
    found = run(values=ASKED)[0]["gpu-1"].findings[CHECK]
    assert found.outcome is Outcome.FAILED
    assert "none gave way" in found.cause


@pytest.mark.parametrize(
    ("change", "says"),
    [({"value": 5}, "has value 5"), ({"value": priority.VALUE + 2}, f"has value {priority.VALUE + 2}")],
)
def test_a_class_of_another_value_is_not_used(
    run: Any, fake_cluster: Any, change: dict[str, Any], says: str
) -> None:
    fake_cluster.classes[PREEMPTING_CLASS] = {**priority.preempting(), **change}
    found = run(values=ASKED)[0]["gpu-1"].findings[CHECK]
    assert found.outcome is Outcome.ERROR
    assert says in found.cause
    assert "n0-preempts" not in fake_cluster.logs


def test_nobody_elses_pod_may_be_the_victim(run: Any, fake_cluster: Any) -> None:
    items = fake_cluster.items

    def with_others(path: str, *cut: Any, **query: str) -> list[Any]:
        if path != "/api/v1/pods":
            return list(items(path, *cut, **query))
        return [{"metadata": {"name": "low", "namespace": "team"}, "spec": {"priority": -2_000_000_000}}]

    fake_cluster.items = with_others
    found = run(values=ASKED)[0]["gpu-1"].findings[CHECK]
    assert (found.outcome, "'team/low' has a lower priority" in found.cause) == (Outcome.SKIPPED, True)
    assert "n0-preempts" not in fake_cluster.logs


HELD = {"a": "GPU-a", "b": "GPU-b"}


@pytest.mark.parametrize(
    ("gone", "got", "says"),
    [
        ({"a": "GPU-a"}, "GPU-a", ""),
        ({"a": "GPU-a"}, "GPU-b", "'a' with GPU-a gave way, and GPU-b was given"),
        (HELD, "GPU-a", "'a' with GPU-a, 'b' with GPU-b gave way"),
    ],
)
def test_exactly_one_gives_way(gone: dict[str, str], got: str, says: str) -> None:
    problems = judge(Expected("gpu-1", True, None), HELD, gone, got).problems
    assert [says in problem.cause for problem in problems] == ([True] if says else [])
