from __future__ import annotations

from pathlib import Path

import pytest

from gpusmith.probe import host


@pytest.mark.parametrize(
    ("cpus", "vendor", "virtual"),
    [
        ("processor\t: 0\nflags\t\t: fpu vme hypervisor lahf_lm\n", "QEMU", True),
        ("processor\t: 0\nflags\t\t: fpu vme lahf_lm\nvmx flags\t: vnmi\n", "Supermicro", False),
        # Not of x86, which has no such flag.
        ("processor\t: 0\nFeatures\t: fp asimd\n", "QEMU", True),
        ("processor\t: 0\nFeatures\t: fp asimd\n", "NVIDIA", False),
        (None, None, None),
    ],
)
def test_a_virtual_machine_is_known(cpus: str | None, vendor: str | None, virtual: bool | None) -> None:
    assert host.is_virtual(cpus, vendor) is virtual


def test_control_groups_are_told_by_what_is_mounted(tmp_path: Path) -> None:
    assert host.is_cgroup_v2(str(tmp_path / "none")) is None
    assert host.is_cgroup_v2(str(tmp_path)) is False
    (tmp_path / "cgroup.controllers").touch()
    assert host.is_cgroup_v2(str(tmp_path)) is True
