"""The tables of simulated packages, and single packages made from them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from gpulab.simgpu import packages

from gpusmith.errors import ToolError

pytestmark = pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="dpkg-deb is not installed")


def row(table: str, name: str) -> dict[str, Any]:
    rows = packages.table(table)
    return next(item for item in [*rows["packages"], *rows.get("singles", [])] if item["name"] == name)


def control(path: Path, *fields: str) -> list[str]:
    done = subprocess.run(["dpkg-deb", "-f", path, *fields], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def content(path: Path) -> dict[str, str]:
    """Files of a package with their modes."""
    done = subprocess.run(["dpkg-deb", "-c", path], capture_output=True, text=True, check=True)
    rows = (line.split(maxsplit=5) for line in done.stdout.splitlines())
    return {
        words[5].split(" -> ")[0].removeprefix("."): words[0] for words in rows if not words[5].endswith("/")
    }


@pytest.mark.parametrize("name", ["nvidia", "debian"])
def test_two_versions_of_one_branch_and_one_of_a_newer(name: str) -> None:
    branches = [driver["version"].split(".")[0] for driver in packages.table(name)["drivers"]]
    assert sorted(branches.count(branch) for branch in set(branches)) == [1, 2]


def test_a_version_is_text_everywhere() -> None:
    for name in ("nvidia", "debian"):
        for driver in packages.table(name)["drivers"]:
            assert isinstance(driver["version"], str)


def test_firmware_package_links_the_live_state_by_a_name_that_cdi_mounts(tmp_path: Path) -> None:
    driver = packages.Driver(tmp_path, "580.178.04", 13000)
    deb = packages.package(
        row("nvidia", "firmware-nvidia-gsp"), packages.placeholders("580.178.04", "580.178.04-1"), driver
    )
    path = packages.write(deb, tmp_path, tmp_path)
    folder = "/lib/firmware/nvidia/580.178.04"
    assert set(content(path)) == {
        f"{folder}/gsp_ga10x.bin",
        f"{folder}/gsp_tu10x.bin",
        f"{folder}/gsp_simgpu_live.bin",
    }
    assert control(path, "Description")[0].startswith("SIMULATED GPU hardware")


def test_setuid_and_maintainer_scripts(tmp_path: Path) -> None:
    driver = packages.Driver(tmp_path, "580.178.04", 13000)
    values = packages.placeholders("580.178.04", "580.178.04-1")
    path = packages.write(
        packages.package(row("nvidia", "nvidia-modprobe"), values, driver), tmp_path, tmp_path
    )
    assert content(path)["/usr/bin/nvidia-modprobe"] == "-rwsr-xr-x"
    for name in ("nvidia-persistenced", "nvidia-kernel-open-dkms"):
        deb = packages.package(row("nvidia", name), values, driver)
        assert "modprobe" not in deb.scripts["postinst"]
        assert " start " not in deb.scripts["postinst"]
        assert "restart" not in deb.scripts["postinst"]


def test_the_two_flavours_exclude_each_other_and_differ_in_licence(tmp_path: Path) -> None:
    driver = packages.Driver(tmp_path, "580.178.04", 13000)
    values = packages.placeholders("580.178.04", "580.178.04-1")
    for name, other, license_name in (
        ("nvidia-kernel-open-dkms", "nvidia-kernel-dkms", b"license=Dual MIT/GPL\0"),
        ("nvidia-kernel-dkms", "nvidia-kernel-open-dkms", b"license=NVIDIA\0"),
    ):
        deb = packages.package(row("nvidia", name), values, driver)
        assert deb.fields["Conflicts"] == other
        module = deb.files["/usr/src/nvidia-580.178.04/nvidia.simulated.o"].read_bytes()
        assert license_name in module
        assert b"gpusmith_simulated=1\0" in module


def test_pinning_package_is_read_by_apt(tmp_path: Path) -> None:
    deb = packages.package(
        row("nvidia", "nvidia-driver-pinning-{version}"),
        packages.placeholders("580.178.04", "580.178.04-1"),
        None,
    )
    (path,) = deb.texts
    # apt reads files there that have no suffix, or .pref
    assert "." not in Path(path).name
    assert "Pin: version 580.178.04-*" in deb.texts[path]
    assert deb.name == "nvidia-driver-pinning-580.178.04"


def test_toolkits_stand_side_by_side() -> None:
    debs = {deb.name: deb for deb in packages.toolkit_packages(packages.table("cuda"))}
    paths = [path for deb in debs.values() for path in [*deb.texts, *deb.links]]
    assert {"cuda-toolkit-12-8", "cuda-toolkit-13-0", "cuda-toolkit-config-common"} <= set(debs)
    assert len(paths) == len(set(paths))
    assert (
        '"version": "12.8.1"'
        in debs["cuda-toolkit-12-8-config-common"].texts["/usr/local/cuda-12.8/version.json"]
    )
    assert "SIMULATED" in debs["cuda-nvcc-13-0"].texts["/usr/local/cuda-13.0/bin/nvcc"]


def test_a_part_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="'nvidia-sim'"):
        packages.Driver(tmp_path, "580.178.04", 13000).part("nvidia-sim")


def test_fingerprint_is_stable() -> None:
    assert packages.fingerprint() == packages.fingerprint()
