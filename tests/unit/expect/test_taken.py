"""Kernel modules that another node has built: what is wrong with them, and which kernels need some."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.expect import taken, wanted
from gpusmith.node.records import parse
from gpusmith.problems import Cure
from tests.unit.hosts import VERSION
from tests.unit.records import healthy_record

KERNEL = "6.1.0-40-amd64"
PATH = f"/lib/modules/{KERNEL}/updates/dkms/nvidia.ko"
WANTED = wanted.Driver("gpu-1", VERSION)


def record(**changes: Any) -> Any:
    raw = healthy_record()
    raw["host"]["kernel"] = KERNEL
    good = {"path": PATH, "is_there": True, "same": True, "version": VERSION, "vermagic": f"{KERNEL} SMP"}
    raw["taken"] = [
        {"kernel": KERNEL, "version": VERSION, "builder": "gpu-2", "files": [{**good, **changes}]}
    ]
    return parse(raw)


def test_what_was_taken_and_is_unchanged_is_right() -> None:
    assert taken.problems(record(), "gpu-1") == []
    assert taken.to_take(record(), WANTED) == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"is_there": False, "same": False, "version": None, "vermagic": None}, "is not there"),
        ({"same": False}, "has another checksum than the one that was taken"),
        ({"same": False, "vermagic": "6.1.0-39-amd64 SMP"}, f"is for kernel '6.1.0-39-amd64', and stands with kernel '{KERNEL}'"),
        ({"same": False, "version": None, "vermagic": None}, "is for kernel 'none'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_and_taken_again(changes: dict[str, Any], says: str) -> None:
    seen = record(**changes)
    (problem,) = taken.problems(seen, "gpu-1")
    assert problem.cause.startswith(
        f"Node 'gpu-1': module '{PATH}', which was taken from the build of 'gpu-2', "
    )
    assert says in problem.cause
    assert problem.cure is Cure.PACKAGES
    assert taken.to_take(seen, WANTED) == [KERNEL]


def test_another_driver_that_came_since_then_is_not_judged_by_an_old_note() -> None:
    seen = record(same=False, version="580.95.05")
    assert taken.problems(seen, "gpu-1") == []
    assert taken.to_take(seen, WANTED) == []


def test_kernels_without_the_module_need_one() -> None:
    raw = healthy_record()
    raw["host"]["kernel"] = KERNEL
    raw["module"]["installed_version"] = None
    raw["kernels"] = [{"release": "6.1.0-41-amd64", "image": "/boot/vmlinuz", "headers": True}]
    assert taken.to_take(parse(raw), WANTED) == [KERNEL, "6.1.0-41-amd64"]
