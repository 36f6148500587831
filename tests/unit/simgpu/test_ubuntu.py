"""The simulated driver's packages for machines with Ubuntu's packages."""

from __future__ import annotations

import pytest
from gpulab import systems
from gpulab.artifacts.families import ARCHIVES
from gpulab.simgpu import kernels, ubuntu
from gpulab.simgpu.packages import table

ROWS = table("ubuntu")


def names(version: str, repository: str) -> list[str]:
    """Packages of one driver in a repository, without its parts."""
    (row,) = (row for row in ROWS["drivers"] if (row["version"], row["repository"]) == (version, repository))
    values = {"suffix": row["suffix"], "branch": version[:3], "version": version, "kernel": "6.8.0"}
    return sorted(
        template["name"].format_map(values)
        for template in ROWS["packages"]
        if ubuntu.belongs(template, int(version[:3]), repository)
    )


@pytest.mark.parametrize(
    ("version", "repository", "there", "not_there"),
    [
        ("580.178.04", "cuda", ["libnvidia-compute-580", "nvidia-dkms-580-open"], "nvidia-persistenced"),
        ("595.91.07", "cuda", ["libnvidia-compute", "nvidia-dkms-open", "nvidia-firmware"], "nvidia-utils"),
        (
            "580.173.02",
            "ubuntu",
            ["nvidia-utils-580-server", "nvidia-firmware-580-server-580.173.02", "nvidia-fabricmanager-580"],
            "nvidia-modprobe",
        ),
        ("595.91.07", "ubuntu", ["linux-modules-nvidia-595-server-open-6.8.0"], "nvidia-firmware"),
    ],
)  # fmt: skip
def test_names_follow_branch_and_repository(
    version: str, repository: str, there: list[str], not_there: str
) -> None:
    found = names(version, repository)
    assert set(there) <= set(found)
    assert not_there not in found
    assert len(set(found)) == len(found)


def test_the_archive_shares_names_and_upstream_version_with_nvidia() -> None:
    shared = set(names("580.178.04", "cuda")) & set(names("580.178.04", "ubuntu"))
    assert {"libnvidia-compute-580", "nvidia-dkms-580-open"} <= shared
    versions = {row["deb"] for row in ROWS["drivers"] if row["version"] == "580.178.04"}
    assert len(versions) == 2


def test_broken_drivers_have_the_packages_of_nvidias_repository() -> None:
    rows = list(ubuntu._broken())
    assert {row["breaks"] for row in rows} == {"module", "cuda", "uuids"}
    assert {row["suffix"] for row in rows} == {"-580"}
    assert all(row["deb"] == f"{row['version']}-1ubuntu1" for row in rows)


def test_what_nothing_holds_has_security_updates_of_ubuntus_own() -> None:
    archive = systems.system("ubuntu-24.04").archive
    assert {name: called["Suite"] for name, called in ARCHIVES.items()} == dict(
        zip(archive, ("noble", "noble-security"), strict=True)
    )
    offered = {
        name: {row["name"] for row in ROWS["singles"] if row["repository"] == name} for name in archive
    }
    assert offered["ubuntu-security"] == {"gpulab-neighbour"} < offered["ubuntu"]
    assert [kernel.repository for kernel in kernels.known("ubuntu")] == list(archive)


def test_the_persistence_daemon_of_canonicals_packages_is_enabled_by_nobody() -> None:
    (row,) = (
        row for row in ROWS["packages"] if row["name"].startswith("nvidia-compute-utils") and "in" not in row
    )
    (unit,) = row["texts"].values()
    assert "[Install]" not in unit
    assert "StopWhenUnneeded=true" in unit
