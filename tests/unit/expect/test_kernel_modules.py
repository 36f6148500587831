"""Kernels without modules that a node needs: which package brings them, and what the suite says of the next boot."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.expect import forecast, host, kernel_modules, wanted
from gpusmith.node.records import parse
from tests.unit.expect.converged import SETTINGS, converged_record
from tests.unit.expect.role_plans import host_baseline_plan

TEMPLATE = "kernel-modules-extra-{kernel}"
RUNNING, NEXT = "6.12.0-124.52.2.el10_1.x86_64", "6.12.0-124.55.1.el10_1.x86_64"


def machine(loaded: bool = False, running: str = RUNNING, **lacking: list[str]) -> dict[str, Any]:
    """A machine whose kernels lack modules, by 'running' and 'next'."""
    record = converged_record()
    record["host"]["kernel"] = running
    rows = {running: lacking.get("now", []), **({NEXT: lacking["next"]} if "next" in lacking else {})}
    record["kernels"] = [
        {**record["kernels"][0], "release": release, "lacking": names} for release, names in rows.items()
    ]
    record["system"]["modules"]["br_netfilter"] = loaded
    return record


def plan(record: dict[str, Any], template: str = TEMPLATE) -> dict[str, Any]:
    settings = {**SETTINGS["host_baseline"], "modules_package": template}
    return host_baseline_plan(record, settings)


def problems(record: dict[str, Any]) -> list[str]:
    want = wanted.Baseline(node="gpu-1", swap="keep", modules=("overlay", "br_netfilter"))
    return [problem.cause for problem in kernel_modules.problems(parse(record), want)]


def test_the_package_of_the_running_kernel_comes_with_its_release() -> None:
    record = machine(now=["br_netfilter", "mlx5_ib"])
    assert plan(record)["modules_packages"] == [f"kernel-modules-extra-{RUNNING}"]
    told = forecast.of_role("host_baseline", plan(record))["changes"]["more"]
    assert told == [f"package kernel-modules-extra-{RUNNING}, with modules of the kernel"]
    # What is not loaded is told as that.
    assert problems(record) == []


def test_the_kernel_that_boots_next_needs_them_too() -> None:
    record = machine(loaded=True, next=["br_netfilter"])
    assert plan(record)["modules_packages"] == [f"kernel-modules-extra-{NEXT}"]
    assert problems(record) == [
        f"Node 'gpu-1': kernel '{NEXT}', which boots next, has no module 'br_netfilter'."
    ]
    assert [problem for problem in plan(record)["problems"] if NEXT in problem]


@pytest.mark.parametrize(
    "record",
    [
        machine(loaded=True),
        # Only of NVLink 5.
        machine(loaded=True, now=["ib_umad"]),
        # A container: the module is there, and no file shows it, for whatever kernel.
        machine(loaded=True, now=["overlay", "br_netfilter"], next=["overlay", "br_netfilter"]),
        # An older kernel, which only the boot menu leads to.
        machine(loaded=True, running="6.12.0-200.el10.x86_64", next=["br_netfilter"]),
    ],
)
def test_nothing_comes_where_nothing_lacks(record: dict[str, Any]) -> None:
    assert (plan(record)["modules_packages"], problems(record)) == ([], [])


def test_where_the_system_has_no_such_package_none_is_asked_for() -> None:
    record = machine(loaded=True, next=["br_netfilter"])
    assert plan(record, "")["modules_packages"] == []
    assert problems(record) != []


def test_the_suite_hears_of_it() -> None:
    record = parse(machine(loaded=True, next=["br_netfilter"]))
    want = wanted.Baseline(node="gpu-1", swap="keep", modules=("br_netfilter",))
    assert any("boots next" in problem.cause for problem in host.baseline(record, want))
