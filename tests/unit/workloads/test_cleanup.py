"""What is said of what a run made."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.checks.findings import Outcome
from gpusmith.errors import ToolError


def test_a_namespace_that_stays_fails_the_run(
    run: Any, fake_cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = fake_cluster.delete

    def refuse(path: str, grace_s: int | None = None) -> None:
        if path.endswith("/gpusmith-validation-a1"):
            raise ToolError("forbidden")
        delete(path, grace_s)

    monkeypatch.setattr(fake_cluster, "delete", refuse)
    _, finding = run()
    assert (finding.check, finding.target, finding.outcome) == (
        "workloads.cleanup",
        "cluster",
        Outcome.FAILED,
    )
    assert "Namespace 'gpusmith-validation-a1' of this run is still there: forbidden." in finding.cause
    assert "kubectl get namespace gpusmith-validation-a1" in finding.next_step


def test_a_run_that_made_nothing_leaves_nothing(run: Any, fake_cluster: Any) -> None:
    def fail(*_: Any) -> None:
        raise AssertionError

    fake_cluster.create = fake_cluster.delete = fail
    assert run(gpu_1=None)[1].outcome is Outcome.PASSED
