"""The tables of simulated packages, and single packages made from them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpulab import inventory
from gpulab.simgpu import packages
from simgpu.modinfo import modinfo

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


def drivers(tmp_path: Path) -> tuple[packages.Driver, packages.Driver]:
    """A version, and another one that takes its parts from it."""
    first = packages.Driver(tmp_path, "580.178.04", 13000)
    return first, packages.Driver(tmp_path, "580.200.03", 13000, like=first)


@pytest.mark.parametrize("name", ["nvidia", "debian"])
def test_versions_of_one_branch_and_of_a_newer(name: str) -> None:
    branches = [driver["version"].split(".")[0] for driver in packages.table(name)["drivers"]]
    assert len(set(branches)) == 2
    assert branches.count(min(branches)) >= 2


def test_the_driver_of_the_labs_inventory_can_be_upgraded_and_downgraded() -> None:
    number = packages.numbers(inventory.DRIVER_VERSION)
    there = [packages.numbers(driver["version"]) for driver in packages.table("nvidia")["drivers"]]
    of_branch = [other for other in there if other[0] == number[0]]
    assert min(of_branch) < number < max(of_branch) < max(there)


@pytest.mark.parametrize(("table", "family"), [("debian", "Debian"), ("ubuntu", "Ubuntu"), ("el", "RedHat")])
def test_each_family_has_what_manages_the_switches_of_nvlink_5(root: Path, table: str, family: str) -> None:
    path = root / "roles/nvidia_driver/vars" / f"{family}.yml"
    rows = yaml.safe_load(path.read_text())["__nvidia_driver_layouts"]["nvidia"]
    wanted = {*rows[0]["subnet_manager"], *rows[0]["subnet_manager_tools"]}
    there = {item["name"]: item for item in packages.table(table)["singles"]}
    assert wanted <= there.keys()
    started = {path for name in wanted for path, mode in there[name]["modes"].items() if mode == "755"}
    assert started == {"/usr/sbin/ibstat", "/opt/nvidia/nvlsm/sbin/nvlsm"}, (
        "what the fabric manager looks for"
    )


@pytest.mark.parametrize(("table", "family"), [("nvidia", "Debian"), ("ubuntu", "Ubuntu"), ("el", "RedHat")])
def test_each_family_has_the_parts_that_not_every_machine_needs(root: Path, table: str, family: str) -> None:
    path = root / "roles/nvidia_driver/vars" / f"{family}.yml"
    rows = yaml.safe_load(path.read_text())["__nvidia_driver_layouts"]["nvidia"]
    there = {item["name"]: item for item in packages.table(table)["packages"]}
    assert set(rows[0]["components"].values()) <= there.keys()


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


@pytest.mark.parametrize(("older", "newer"), [("580.178.04", "580.190.02"), ("580.190.02", "595.91.07")])
def test_the_unit_file_of_a_newer_version_is_newer(tmp_path: Path, older: str, newer: str) -> None:
    """As in life, where systemd then wants to read it anew; all else has one date."""
    dates = []
    for version in (older, newer):
        unit = "/usr/lib/systemd/system/a.service"
        deb = packages.Deb(
            "a", f"1:{version}-1", "all", {}, "of a test", texts={unit: "[Unit]\n", "/etc/a": ""}
        )
        (tmp_path / version).mkdir()
        made = packages.write(deb, tmp_path / version, tmp_path)
        unpacked = tmp_path / f"{version}.d"
        subprocess.run(["dpkg-deb", "-x", made, unpacked], check=True)
        dates.append([int((unpacked / path).stat().st_mtime) for path in (unit[1:], "etc/a")])
    assert dates[0][0] < dates[1][0]
    assert dates[0][1] == dates[1][1] == packages.EPOCH


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


def test_what_is_compiled_once_is_what_its_own_compilation_gives(tmp_path: Path) -> None:
    _, copied = drivers(tmp_path)
    (tmp_path / "compiled").mkdir()
    compiled = packages.Driver(tmp_path / "compiled", copied.version, 13000)
    for part in ("libcuda.so", "nvidia-persistenced", "open/nvidia.o"):
        assert copied.part(part).read_bytes() == compiled.part(part).read_bytes(), part


def test_parts_are_shared_by_versions_that_differ_in_nothing_else(tmp_path: Path) -> None:
    rows = [row for name in ("nvidia", "broken") for row in packages.table(name)["drivers"]]
    made = packages.made(rows, tmp_path)
    compiled = [driver.version for driver in made if driver.like is None]
    assert compiled == ["580.95.05", "580.178.04", "595.91.07"]
    assert all(driver.like.cuda == driver.cuda for driver in made if driver.like)


# --- versions that are broken ------------------------------------------------------------------------------

BROKEN = {row["breaks"]: row for row in packages.table("broken")["drivers"]}


def broken(kind: str, folder: Path) -> dict[str, packages.Deb]:
    """The packages of the version that is broken in one way."""
    like = packages.Driver(folder, "580.178.04", 13000)
    built = packages.Driver(folder, BROKEN[kind]["version"], 13000, like, kind)
    rows = packages.table("nvidia") | {"drivers": [BROKEN[kind]]}
    return {deb.name: deb for deb in packages.driver_packages(rows, BROKEN[kind], built)}


def test_every_way_has_one_version_newer_than_the_good_ones_of_the_branch() -> None:
    assert sorted(BROKEN) == sorted(packages.DEFECTS)
    good = [packages.numbers(row["version"]) for row in packages.table("nvidia")["drivers"]]
    for row in BROKEN.values():
        number = packages.numbers(row["version"])
        assert all(number > other for other in good if other[0] == number[0])
        assert isinstance(row["version"], str)


def test_the_page_of_the_lab_and_the_help_name_them(root: Path) -> None:
    page, said = (root / "docs" / "lab.md").read_text(), packages.broken_drivers()
    for row in BROKEN.values():
        assert f"| `{row['version']}` | {row['summary']} |" in page
        assert f"{row['version']}  {row['summary']}" in said


def test_a_broken_version_has_the_whole_set_of_packages(tmp_path: Path) -> None:
    rows = packages.table("nvidia")
    good = {
        deb.name
        for deb in packages.driver_packages(rows, rows["drivers"][1], None)
        if "pinning" not in deb.name
    }
    for kind in BROKEN:
        assert good <= set(broken(kind, tmp_path)), kind


def test_the_package_that_cannot_be_installed_fails_when_it_is_configured(tmp_path: Path) -> None:
    debs = broken("package", tmp_path)
    for name in ("nvidia-kernel-open-dkms", "nvidia-kernel-dkms"):
        done = subprocess.run(
            ["sh", "-ec", debs[name].scripts["postinst"], "postinst", "configure"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 10
        assert "Bad return status for module build" in done.stderr
        # Whoever removes it again must be able to.
        assert "exit" not in debs[name].scripts["prerm"]
    assert "exit" not in broken("module", tmp_path)["nvidia-kernel-open-dkms"].scripts["postinst"]


@pytest.mark.parametrize("kind", ["module", "uuids"])
def test_a_broken_module_says_so_where_the_simulated_kernel_reads(kind: str, tmp_path: Path) -> None:
    files = broken(kind, tmp_path)["nvidia-kernel-open-dkms"].files
    folder = f"/usr/src/nvidia-{BROKEN[kind]['version']}"
    info = modinfo(files[f"{folder}/nvidia.simulated.o"])
    assert (info["version"], info["simgpu_defect"]) == (BROKEN[kind]["version"], kind)
    assert "simgpu_defect" not in modinfo(files[f"{folder}/nvidia-uvm.simulated.o"])


def test_a_broken_cuda_library_is_the_only_part_that_differs(tmp_path: Path) -> None:
    debs = broken("cuda", tmp_path)
    version = BROKEN["cuda"]["version"]
    (library,) = debs["libcuda1"].files.values()
    (nvml,) = debs["libnvidia-ml1"].files.values()
    good = packages.Driver(tmp_path, "580.178.04", 13000)

    def renamed(part: str) -> bytes:
        return good.part(part).read_bytes().replace(b"580.178.04", version.encode())

    assert library.read_bytes() != renamed("libcuda.so")
    assert nvml.read_bytes() == renamed("libnvidia-ml.so")
