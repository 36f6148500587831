"""Placement by the label that the inventory sets."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.checks.findings import Outcome
from gpusmith.workloads import gpu_type, waiting

CHECK = "workloads.gpu-type"


def test_the_right_type_runs_and_another_waits(run: Any) -> None:
    found = run()[0]["gpu-1"].findings[CHECK]
    assert found.outcome is Outcome.PASSED, found.cause
    assert gpu_type.NOT_HERE in found.evidence["pending"]


def test_a_node_without_its_label_fails(run: Any, fake_cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "UNSCHEDULABLE_S", 0.1)
    fake_cluster.types = {"gpu-1": "l40s-48gb"}
    found = run()[0]["gpu-1"].findings[CHECK]
    assert found.outcome is Outcome.FAILED
    assert gpu_type.NOT_HERE in found.cause


def test_a_pod_of_another_type_that_is_placed_fails(
    run: Any, fake_cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_type, "OTHER", "h100-sxm")
    found = run()[0]["gpu-1"].findings[CHECK]
    assert found.outcome is Outcome.FAILED
    assert "and was placed" in found.cause


def test_it_must_wait_for_its_affinity(run: Any, fake_cluster: Any) -> None:
    fake_cluster.no_such_type = "3 node(s) had untolerated taint(s)."
    found = run()[0]["gpu-1"].findings[CHECK]
    assert found.outcome is Outcome.FAILED
    assert (
        "waits for another reason: 0/3 nodes are available: 3 node(s) had untolerated taint(s)."
        in found.cause
    )


def test_nothing_to_compare_without_a_model(run: Any) -> None:
    found = run(values={"gpusmith_gpu_model": ""})[0]["gpu-1"].findings[CHECK]
    assert (found.outcome, "names no GPU model" in found.cause) == (Outcome.SKIPPED, True)
