"""What became of the nodes of a run, and which of them are where they should be."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.change.outcome import Result
from gpusmith.upgrade import report
from tests.unit.upgrade.nodes import NEW, OLD


def row(result: Result | None, **planned: Any) -> report.Row:
    """Of one node with that outcome."""
    plan = {"node": "gpu-1", "origin": OLD, "target": NEW, "action": "upgrade", **planned}
    (found,) = report.rows({"gpu-1": plan}, {"gpu-1": {"result": str(result)} if result else None})
    return found


@pytest.mark.parametrize("result", Result)
def test_an_upgrade_is_good_where_the_node_has_its_target(result: Result) -> None:
    found = row(result)
    assert found.good is (result in (Result.UPGRADED, Result.CHANGED))
    assert bool(report.left([found], "back")) is not found.good


@pytest.mark.parametrize("result", Result)
def test_an_upgrade_that_was_to_be_taken_back_is_good_once_the_node_serves_as_before(result: Result) -> None:
    """One that was not changed yet is released; the others are rolled back."""
    found = row(result, action="resume", back=True)
    assert found.good is (result in (Result.ROLLED_BACK, Result.RELEASED))
    assert bool(report.left([found], "back")) is not found.good


def test_who_is_left_alone_is_good_and_who_is_left_out_is_not() -> None:
    assert row(None, action="none").good
    assert not row(None, action="skip").good
    lost = row(None)
    assert (lost.good, lost.result) == (False, "unfinished")


def test_the_line_for_the_inventory_names_what_was_installed() -> None:
    assert f'nvidia_driver_version: "{NEW}"' in report.inventory_line([row(Result.UPGRADED)], {})
    assert report.inventory_line([row(Result.RELEASED)], {}) == ""


@pytest.mark.parametrize(
    ("asked", "met"), [(OLD, False), (NEW, True), (NEW.split(".")[0], True), ("latest", True)]
)
def test_an_inventory_whose_branch_is_met_needs_no_change(asked: str, met: bool) -> None:
    assert (report.inventory_line([row(Result.UPGRADED)], {"gpu-1": asked}) == "") is met
