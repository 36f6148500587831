"""Kernel modules that another node has built: what is wrong with them, and which kernels need some."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpusmith.expect import taken, wanted
from gpusmith.node.records import parse
from gpusmith.problems import Cure
from tests.unit.hosts import VERSION
from tests.unit.records import healthy_record

KERNEL = "6.1.0-40-amd64"
PATH = f"/lib/modules/{KERNEL}/updates/dkms/nvidia.ko"
WANTED = wanted.Driver(node="gpu-1", version=VERSION)


def kernel(release: str, **changes: Any) -> dict[str, Any]:
    """A kernel that can be booted, with the driver's module."""
    module = {"module": PATH, "module_version": VERSION}
    return {"release": release, "image": "/boot/vmlinuz", "headers": True, **module, **changes}


def record(**changes: Any) -> Any:
    raw = healthy_record()
    raw["host"]["kernel"] = KERNEL
    raw["kernels"] = [kernel(KERNEL)]
    good = {"path": PATH, "is_there": True, "same": True, "version": VERSION, "vermagic": f"{KERNEL} SMP"}
    raw["taken"] = [
        {"kernel": KERNEL, "version": VERSION, "builder": "gpu-2", "files": [{**good, **changes}]}
    ]
    return parse(raw)


def without_module(seen: Any) -> Any:
    kernels = tuple(replace(each, module=None, module_version=None) for each in seen.kernels)
    return replace(seen, kernels=kernels, module=replace(seen.module, installed_version=None))


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
    if not seen.taken[0].files[0].is_there:
        seen = without_module(seen)
    (problem,) = taken.problems(seen, "gpu-1")
    assert problem.cause.startswith(
        f"Node 'gpu-1': module '{PATH}', which was taken from the build of 'gpu-2', "
    )
    assert says in problem.cause
    assert problem.cure is Cure.PACKAGES
    assert taken.to_take(seen, WANTED) == taken.damaged(seen, WANTED) == [KERNEL]


def test_another_driver_that_came_since_then_is_not_judged_by_an_old_note() -> None:
    seen = record(same=False, version="580.95.05")
    assert taken.problems(seen, "gpu-1") == []
    assert taken.to_take(seen, WANTED) == []


GONE = {"is_there": False, "same": False, "version": None, "vermagic": None}


def test_a_module_that_dkms_has_built_since_then_is_not_judged_by_an_old_note() -> None:
    """DKMS may compress what it installs, so that the file of the note is gone."""
    seen = record(**GONE)
    (note,) = seen.taken
    # Of another version, and back again.
    assert taken.problems(replace(seen, taken=(replace(note, version="580.100.01"),)), "gpu-1") == []
    packed = tuple(replace(each, module=f"{PATH}.zst") for each in seen.kernels)
    assert taken.problems(replace(seen, kernels=packed), "gpu-1") == []
    assert taken.to_take(replace(seen, kernels=packed), WANTED) == []


def test_one_of_several_files_that_is_gone_is_wrong() -> None:
    seen = record()
    (note,) = seen.taken
    gone = replace(note.files[0], path=f"{PATH}.uvm", is_there=False)
    seen = replace(seen, taken=(replace(note, files=(*note.files, gone)),))
    assert len(taken.problems(seen, "gpu-1")) == 1
    assert taken.to_take(seen, WANTED) == [KERNEL]


def test_of_a_kernel_that_cannot_be_booted_nothing_is_said() -> None:
    """Its removal leaves a folder."""
    seen = record(**GONE)
    bare = {"image": None, "module": None, "module_version": None}
    left = replace(seen.kernels[0], release="6.1.0-39-amd64", **bare)
    note = replace(seen.taken[0], kernel=left.release)
    assert taken.problems(replace(seen, kernels=(*seen.kernels, left), taken=(note,)), "gpu-1") == []
    # Nor of one that the driver since then was not built for, which is a problem of its own.
    there, old = replace(left, image="/boot/vmlinuz"), replace(note, version="580.100.01")
    assert taken.problems(replace(seen, kernels=(*seen.kernels, there), taken=(old,)), "gpu-1") == []


def test_kernels_without_the_module_need_one() -> None:
    raw = healthy_record()
    raw["host"]["kernel"] = KERNEL
    raw["module"]["installed_version"] = None
    raw["kernels"] = [{"release": "6.1.0-41-amd64", "image": "/boot/vmlinuz", "headers": True}]
    assert taken.to_take(parse(raw), WANTED) == [KERNEL, "6.1.0-41-amd64"]
