"""What there is of the driver on a node that is to have none."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.expect.converged import DRIVER_FILES, converged_record
from tests.unit.expect.role_plans import driver_removal
from tests.unit.expect.test_driver import LAYOUTS, VERSION, bare
from tests.unit.families.systems import value

SETTINGS = {
    "node": "gpu-1",
    "version": VERSION,
    "package_layout": "nvidia",
    "files": DRIVER_FILES,
}


def left(raw: dict[str, Any], **asked: Any) -> dict[str, Any]:
    raw["kubernetes"]["joined"] = asked.pop("joined", False)
    return driver_removal(raw, {**SETTINGS, **asked}, asked.pop("known", LAYOUTS))


def test_a_machine_that_never_had_one_has_nothing_to_take_away() -> None:
    plan = left(bare())
    assert not plan["due"]
    assert [plan[key] for key in ("packages", "others", "units", "files")] == [{}, [], [], []]


@pytest.mark.parametrize("version", [VERSION, "595.91.07", "580", ""])
def test_all_that_is_the_drivers_goes_whatever_version_is_asked_for(version: str) -> None:
    plan = left(converged_record(), version=version)
    assert plan["due"]
    assert plan["loaded"]
    assert {"nvidia-driver-cuda", "libcuda1", "nvidia-fabricmanager"} <= set(plan["packages"])
    assert set(plan["packages"].values()) == {f"{VERSION}-1"}
    assert {"nvidia-persistenced", "gpusmith-nvidia-load.service"} <= set(plan["units"])
    assert set(plan["files"]) == {*DRIVER_FILES}


def test_what_is_noted_of_modules_that_were_taken_goes_as_well() -> None:
    raw = bare()
    raw["managed_files"]["/var/lib/gpusmith/modules/6.1.0-40-amd64.json"] = "0" * 64
    plan = left(raw)
    assert (plan["due"], plan["files"]) == (True, ["/var/lib/gpusmith/modules"])


def test_what_others_brought_stays() -> None:
    raw = converged_record()
    raw["packages"] |= {
        name: {"version": version, "held": False}
        for name, version in {"nvidia-settings": "580.65.06-1", "cuda-toolkit-12-8": "12.8.1-1"}.items()
    }
    plan = left(raw)
    gone = {*plan["packages"], *plan["others"]}
    assert not gone & {"nvidia-settings", "cuda-toolkit-12-8", "nvidia-container-toolkit", "containerd.io"}


def test_helpers_with_versions_of_their_own_go_with_the_driver_alone() -> None:
    known = value("nvidia_driver", "Debian 12", "__nvidia_driver_layouts")
    raw = converged_record()
    raw["packages"]["nvidia-modprobe"] = {"version": "535.161.07-1", "held": True}
    plan = left(raw, package_layout="distribution", known=known)
    assert "nvidia-modprobe" in [*plan["packages"], *plan["others"]]
    # What Debian's own packages bring along: a removal of the others alone leaves it.
    helpers = ("glx-alternative-nvidia", "update-glx", "nvidia-support", "nvidia-kernel-common")
    raw["packages"] |= {name: {"version": "1.2.2", "held": False} for name in helpers}
    assert set(helpers) <= set(left(raw, package_layout="distribution", known=known)["others"])
    raw["packages"] = {name: raw["packages"][name] for name in ("nvidia-modprobe", "update-glx")}
    assert left(raw, package_layout="distribution", known=known)["others"] == []


def test_signed_modules_go_and_their_kernel_may_move() -> None:
    raw = converged_record()
    modules = "linux-modules-nvidia-580-server-open-6.8.0-79-generic"
    raw["packages"] |= {
        name: {"version": "6.8.0-79.79", "held": True} for name in (modules, "linux-image-generic")
    }
    plan = left(raw)
    assert plan["others"] == [modules]
    assert plan["companions"] == ["linux-image-generic"]


@pytest.mark.parametrize("loaded", [VERSION, None])
def test_a_driver_that_no_package_brought_is_not_unloaded(loaded: str | None) -> None:
    raw = bare()
    raw["module"] |= {"installed_version": VERSION, "loaded_version": loaded}
    plan = left(raw)
    assert plan["due"]
    assert f"module 'nvidia' {VERSION}" in plan["refused"]
    assert "'nvidia-uninstall'" in plan["refused"]


def test_files_of_an_installer_beside_packages_keep_them() -> None:
    raw = converged_record()
    raw["foreign"] = {"installer": ["/usr/bin/nvidia-uninstall"]}
    assert "'/usr/bin/nvidia-uninstall' is of NVIDIA's installer" in left(raw)["refused"]


def test_what_only_a_reboot_takes_out_after_its_packages_went_is_not_somebody_elses() -> None:
    raw = bare()
    raw["module"]["loaded_version"] = VERSION
    plan = left(raw)
    assert (plan["due"], plan["loaded"], plan["refused"]) == (True, True, "")


def test_modules_that_came_built_are_of_packages() -> None:
    raw = bare()
    raw["module"]["installed_version"] = VERSION
    raw["packages"]["linux-modules-nvidia-580-server-open-6.8.0-79-generic"] = {
        "version": "6.8.0-79.79",
        "held": True,
    }
    assert left(raw)["refused"] == ""


@pytest.mark.parametrize("path", ["/etc/apt/sources.list.d/gpusmith-nvidia-driver.sources", *DRIVER_FILES])
def test_a_file_of_ours_alone_is_work(path: str) -> None:
    raw = bare()
    raw["managed_files"] = {path: "digest"}
    assert left(raw)["due"]


def test_a_node_that_serves_keeps_its_driver() -> None:
    assert "remove_nodes.yml -l gpu-1" in left(converged_record(), joined=True)["refused"]
    assert left(converged_record())["refused"] == ""
