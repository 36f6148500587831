"""Every kernel that can be booted has the driver's module, and the next one gets its headers."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from gpusmith.expect import kernels, wanted
from gpusmith.node.records import parse
from gpusmith.paths import repo_root
from gpusmith.problems import Cure
from tests.unit.expect.converged import LAYOUTS, SETTINGS, converged_record
from tests.unit.expect.role_plans import driver_plan
from tests.unit.hosts import VERSION
from tests.unit.records import healthy_record

NAMES = yaml.safe_load((repo_root() / "roles/nvidia_driver/vars/Debian.yml").read_text())[
    "__nvidia_driver_kernel"
]
RUNNING, NEXT = "6.1.0-40-amd64", "6.1.0-41-amd64"
WANTED = wanted.Driver(node="gpu-1", version=VERSION)


def record(*rows: dict[str, Any], **packages: bool) -> Any:
    """A healthy node with these kernels besides the running one, and packages that are held or not."""
    raw = healthy_record()
    raw["host"]["kernel"] = RUNNING
    raw["kernels"] = [{"release": RUNNING, "image": "i", "module": "m", "module_version": VERSION}, *rows]
    raw["packages"]["nvidia-kernel-open-dkms"] = {"version": f"{VERSION}-1", "held": True}
    for name, held in packages.items():
        raw["packages"][name.replace("_", "-")] = {"version": "6.1.1-1", "held": held}
    return parse(raw)


def row(**changes: Any) -> dict[str, Any]:
    return {
        "release": NEXT,
        "image": f"/boot/vmlinuz-{NEXT}",
        "module": "m",
        "module_version": VERSION,
        **changes,
    }


def test_kernels_with_the_module_are_right() -> None:
    assert kernels.problems(record(row()), WANTED) == []


def test_a_kernel_without_the_module_is_named_and_site_builds_it() -> None:
    (found,) = kernels.problems(record(row(module=None, module_version=None)), WANTED)
    assert NEXT in found.cause
    assert found.cure is Cure.PACKAGES
    raw = record(row(module=None))
    without = {name: package for name, package in raw.packages.items() if "dkms" not in name}
    (found,) = kernels.problems(type(raw)(**{**vars(raw), "packages": without}), WANTED)
    assert found.cure is Cure.PERSON


def test_the_running_kernel_without_the_module_is_built_for_as_well() -> None:
    """Where DKMS was kept from it: packages that are there build nothing any more."""
    raw = converged_record()
    raw["module"].update(installed_version=None, loaded_version=None)
    raw["kernels"][0].update(module=None, module_version=None)
    found = driver_plan(raw, SETTINGS["nvidia_driver"], LAYOUTS)
    assert found["unbuilt"] == found["to_take"] == [raw["host"]["kernel"]]
    raw["kernels"][0]["headers"] = False
    assert driver_plan(raw, SETTINGS["nvidia_driver"], LAYOUTS)["unbuilt"] == []
    # One with a module of another version is the packages' to change.
    raw["kernels"][0]["headers"], raw["module"]["installed_version"] = True, "570.1.1"
    assert driver_plan(raw, SETTINGS["nvidia_driver"], LAYOUTS)["unbuilt"] == []


def test_a_module_of_another_version_is_a_persons_matter() -> None:
    (found,) = kernels.problems(record(row(module_version="570.1.1")), WANTED)
    assert "570.1.1" in found.cause
    assert found.cure is Cure.PERSON


def test_a_module_that_is_known_not_to_compile_is_not_site_ymls_to_build() -> None:
    old = wanted.Driver(node="gpu-1", version="535.261.03")
    missing = row(release="6.1.0-56-amd64", module=None, module_version=None, headers=True)
    (found,) = kernels.problems(record(missing), old)
    assert "pci_resize_resource" in found.cause
    assert "nvidia_driver_module_flavour: proprietary" in found.next_step
    assert found.cure is Cure.PERSON


OLD = "6.1.0-9-amd64"


@pytest.mark.parametrize("changes", [{"module": None, "module_version": None}, {"module_version": "570.1.1"}])
def test_an_old_kernel_that_nothing_can_be_built_for_is_named_and_stops_nothing(
    changes: dict[str, Any],
) -> None:
    seen = record(row(), row(release=OLD, **changes))
    assert kernels.problems(seen, WANTED) == []
    assert [kernel.release for kernel in kernels.left_behind(seen, WANTED)] == [OLD]
    # With its headers the module can be built.
    seen = record(row(), row(release=OLD, headers=True, **changes))
    assert len(kernels.problems(seen, WANTED)) == 1
    assert kernels.left_behind(seen, WANTED) == []


def test_the_kernel_that_boots_next_is_never_left_behind() -> None:
    seen = record(row(module=None, module_version=None), row(release=OLD))
    assert len(kernels.problems(seen, WANTED)) == 1
    assert kernels.left_behind(seen, WANTED) == []


def test_releases_are_ordered_by_their_numbers() -> None:
    assert kernels.newest(["6.1.0-9-amd64", "6.1.0-40-amd64", "5.10.0-41-amd64"]) == "6.1.0-40-amd64"
    assert kernels.newest(["6.1.0-amd64", "6.12.43+deb13-amd64", "6.8.0-79-generic"]) == "6.12.43+deb13-amd64"
    assert kernels.newest([]) == ""


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("5.14.0-570.el9.x86_64", "5.14.0-570.12.1.el9_6.x86_64"),
        ("6.12.0-55.el10.x86_64", "6.12.0-55.9.1.el10_0.x86_64"),
        ("5.14.0-503.40.1.el9_5.x86_64", "5.14.0-570.el9.x86_64"),
    ],
)
def test_the_newest_kernel_of_el_is_rpms(older: str, newer: str) -> None:
    assert kernels.newest([newer, older]) == kernels.newest([older, newer]) == newer


def test_what_nothing_can_boot_is_no_kernel() -> None:
    assert kernels.problems(record(row(image=None, module=None)), WANTED) == []
    assert kernels.headers(record(row(image=None, module=None)), NAMES, needed=False)["kernels"] == []


def test_headers_of_every_kernel_without_module_are_asked_for() -> None:
    found = kernels.headers(record(row(module=None)), NAMES)
    assert found["kernels"] == [f"linux-headers-{RUNNING}", f"linux-headers-{NEXT}"]
    there = record(row(module=None), **{"linux_headers_6.1.0_41_amd64": False})
    assert kernels.headers(there, NAMES, needed=False)["kernels"] == []


@pytest.mark.parametrize(
    ("packages", "expected"),
    [
        ({"linux_image_amd64": False}, ["linux-headers-amd64"]),
        ({"linux_image_amd64": True}, []),
        ({"linux_image_amd64": False, "linux_headers_amd64": False}, []),
        ({}, []),
        ({"linux_image_cloud_amd64": False}, []),
    ],
)
def test_what_brings_the_next_kernel_brings_its_headers(
    packages: dict[str, bool], expected: list[str]
) -> None:
    assert kernels.headers(record(**packages), NAMES)["next"] == expected


@pytest.mark.parametrize(
    ("release", "flavour"),
    [
        ("6.1.0-40-amd64", "amd64"),
        ("6.1.0-40-cloud-amd64", "cloud-amd64"),
        ("6.1.0-40-rt-amd64", "rt-amd64"),
        ("6.12.43+deb13-cloud-amd64", "cloud-amd64"),
        ("6.1.0-0.deb11.5-amd64", "amd64"),
        ("6.8.0-79-generic", "generic"),
        ("6.18.5", None),
        ("6.18.5-custom", "custom"),
    ],
)
def test_the_flavour_is_what_a_release_ends_with(release: str, flavour: str | None) -> None:
    raw = healthy_record()
    raw["host"]["kernel"] = release
    if flavour:
        raw["packages"][f"linux-image-{flavour}"] = {"version": "1", "held": False}
    expected = [f"linux-headers-{flavour}"] if flavour else []
    assert kernels.headers(parse(raw), NAMES)["next"] == expected


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (f"nvidia/{VERSION}, {RUNNING}, x86_64: installed", "nvidia"),
        (f"nvidia-srv/{VERSION}: added", "nvidia-srv"),
        (f"nvidia-current-open/{VERSION}, {RUNNING}, x86_64: installed", "nvidia-current-open"),
        (f"nvidia-current, {VERSION}, {RUNNING}, x86_64: installed", "nvidia-current"),
        ("nvidia-srv/580.1.1, x: installed", "nvidia"),
    ],
)
def test_what_dkms_calls_the_drivers_module(line: str, name: str) -> None:
    others = "zfs/2.1.11, x: installed\nnvidia-fs/2.26.6, x: installed\n"
    assert kernels.dkms_name(others + line + "\n", VERSION) == name
