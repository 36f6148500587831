"""Huge pages: set before a machine joins, by boots, and never under a node that serves."""

from __future__ import annotations

import copy
import hashlib
from typing import Any

import pytest

from gpusmith.expect import forecast, huge_pages, wanted
from gpusmith.expect.host import HUGE_PAGES_FILE
from gpusmith.node.records import parse
from tests.unit.expect.role_plans import host_baseline_plan
from tests.unit.expect.test_host import CONVERGED, SETTINGS

WANTED = {"2Mi": 1024, "1Gi": 16}
TEXT = (
    "# head\n"
    "w! /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages - - - - 1024\n"
    "w! /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages - - - - 16\n"
)


def machine(two: int = 0, one: int = 0, *, joined: bool = False, written: bool = False) -> dict[str, Any]:
    """A record of a machine with that many pages."""
    record = copy.deepcopy(CONVERGED)
    pages = {"2Mi": {"count": two, "locked": False}, "1Gi": {"count": one, "locked": False}}
    record["memory"] = {"total_kib": 64 << 20, "huge_pages": pages}
    record["kubernetes"] = {"joined": joined}
    if written:
        record["managed_files"][HUGE_PAGES_FILE] = hashlib.sha256(TEXT.encode()).hexdigest()
        record["marked_files"] = [HUGE_PAGES_FILE]
    return record


def plan(record: dict[str, Any], pages: dict[str, Any] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = host_baseline_plan(
        record, {**SETTINGS, "huge_pages": WANTED if pages is None else pages}
    )
    return found


def baseline(pages: dict[str, int]) -> wanted.Baseline:
    return wanted.Baseline(node="gpu-1", swap="keep", huge_pages=pages)


def test_a_new_machine_has_them_now_and_with_every_boot() -> None:
    found = plan(machine(two=8))
    assert found["contents"] == {HUGE_PAGES_FILE: TEXT}
    assert found["huge_pages"] == WANTED
    assert found["boot"] == []
    told = forecast.of_role("host_baseline", found)["changes"]
    assert told["more"] == ["1024 huge pages of 2Mi", "16 huge pages of 1Gi"]
    # What memory was not there for is no success.
    found = plan(machine(two=1024, one=3, written=True))
    assert found["problems"] == ["it has 3 huge pages of '1Gi', the inventory wants 16"]
    assert "'nr_hugepages'" in found["hints"][0]
    assert plan(machine(two=1024, one=16, written=True))["problems"] == []


def test_sizes_that_nobody_names_are_left_alone() -> None:
    found = plan(machine(two=1024, one=7), {"2Mi": 1024})
    assert found["huge_pages"] == {}
    assert found["contents"] == {HUGE_PAGES_FILE: "".join(TEXT.splitlines(keepends=True)[:2])}
    assert plan(machine(two=5), {})["problems"] == []


def test_a_node_that_serves_keeps_what_it_has_until_it_boots() -> None:
    record = machine(two=8, joined=True)
    found = plan(record)
    # The file for boots is all that comes.
    assert (list(found["contents"]), found["huge_pages"]) == ([HUGE_PAGES_FILE], {})
    assert plan(machine(two=8, joined=True, written=True))["problems"] == []
    told = huge_pages.problems(parse(record), baseline(WANTED))
    assert [problem.cause for problem in told] == [
        f"Node 'gpu-1': it has {seen} huge pages of '{size}', the inventory wants {count}; while it serves, only a boot changes"
        " them, since they take memory and its kubelet counts them when it starts."
        for size, seen, count in (("2Mi", 8, 1024), ("1Gi", 0, 16))
    ]
    assert all("drain and reboot 'gpu-1'" in problem.next_step for problem in told)
    assert huge_pages.notes(parse(record), baseline({"2Mi": 1024})) == [
        "it has 8 huge pages of '2Mi', 1024 after its next boot: its kubelet counts them at its start"
    ]
    assert huge_pages.notes(parse(machine(two=8)), baseline(WANTED)) == []


def test_what_leaves_the_inventory_leaves_the_boot() -> None:
    found = plan(machine(two=1024, one=16, written=True), {})
    assert found["problems"] == [
        f"file '{HUGE_PAGES_FILE}' is still there, and the inventory does not list it any more"
    ]
    assert found["leaving"] == ["huge pages"]
    assert plan(machine(two=1024, one=16), {})["leaving"] == []


@pytest.mark.parametrize(
    ("pages", "told"),
    [
        ({"2Mi": 1024, "512Mi": 1}, "the kernel knows no pages of '512Mi'"),
        ({"1Gi": 48, "2Mi": 8192}, "65536 MiB are asked for, and the machine has 65536 MiB of memory"),
        ({"1Gi": 48, "2Mi": 8191}, ""),
    ],
)
def test_what_a_machine_cannot_have_is_told(pages: dict[str, int], told: str) -> None:
    assert [found for found, _allowed, _step in huge_pages.unfitting(parse(machine()), pages)] == [
        told
    ] * bool(told)


def test_what_nobody_can_set_there_is_told() -> None:
    record = machine(two=8, one=16)
    for row in record["memory"]["huge_pages"].values():
        row["locked"] = True
    ((found, allowed, step),) = huge_pages.unfitting(parse(record), WANTED)
    assert found == "there are 8 of '2Mi', and this machine cannot set them"
    assert allowed == "1024 of '2Mi'"
    assert "on the host of this container" in step
    record["memory"]["huge_pages"] = {}
    ((found, allowed, _step),) = huge_pages.unfitting(parse(record), WANTED)
    assert allowed == "none, since its kernel has no huge pages"
