"""Plans and runs of changes where the controller has no room for what they write."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpusmith.gpu.plugins.plugin_utils import planning
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.changing import result_of

from gpusmith.change.outcome import Outcome, Result
from gpusmith.errors import ToolError
from gpusmith.upgrade.plan import Plan

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def fails(*_: Any, **__: Any) -> Any:
    raise FULL


def test_a_plan_that_cannot_be_kept_ends_the_run_before_it_begins(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(planning.table, "lines", lambda _: [])
    monkeypatch.setattr(planning.plans, "to_json", lambda _: {})
    monkeypatch.setattr(Path, "write_text", fails)
    plan: Plan = object()  # type: ignore[assignment]
    with pytest.raises(ToolError, match=r"plan\.json': No space left") as found:
        planning._show(plan, tmp_path / "run")
    assert "gpu_upgrade_report_dir" in found.value.hint


def test_a_run_without_room_for_its_journal_is_unfinished() -> None:
    """Its task does not fail: the report, and the node's ledger, say how far it came."""
    found = result_of(fails)
    assert (found["result"], found["changed"]) == (Result.UNFINISHED, True)
    assert "No space left" in found["reason"]
    assert result_of(lambda: Outcome(Result.RELEASED))["changed"] is False
