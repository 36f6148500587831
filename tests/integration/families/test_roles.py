"""The variables of every role, with the facts of every operating system: what works on Debian 12 works on all of them."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from gpusmith.paths import repo_root
from tests.unit.families.systems import DIFFERENT, SYSTEMS, files

OF_THE_SYSTEM = "gpusmith.gpu.os_vars"


@pytest.fixture(scope="module")
def worked_out() -> Any:
    """By role, system and name; None where a variable needs more than facts, record and inventory."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.families.evaluate"],
        capture_output=True,
        text=True,
        check=False,
        cwd=repo_root(),
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_other_system_reads_the_files_of_one_of_these() -> None:
    assert {files(system) for system in SYSTEMS} == {files(system) for system in DIFFERENT}


def there(values: dict[str, Any]) -> set[str]:
    return {name for name, value in values.items() if value is not None}


@pytest.mark.parametrize("system", DIFFERENT)
def test_what_can_be_worked_out_on_debian_can_be_everywhere(worked_out: Any, system: str) -> None:
    for role, values in worked_out.items():
        assert there(values[system]) == there(values["Debian 12"]), role


def test_what_depends_on_the_system_is_among_them(worked_out: Any) -> None:
    looked_up = [
        (role, name)
        for role, values in worked_out.items()
        for name in values["Debian 12"]
        if f"\n{name}: " in (text := (repo_root() / f"roles/{role}/vars/main.yml").read_text())
        and OF_THE_SYSTEM in text.split(f"\n{name}: ")[1].split("\n")[0]
    ]
    assert len(looked_up) >= 7
    assert [row for row in looked_up if worked_out[row[0]]["Debian 12"][row[1]] is None] == []


@pytest.mark.parametrize("system", DIFFERENT)
def test_no_plan_is_refused_for_the_systems_names(worked_out: Any, system: str) -> None:
    assert worked_out["nvidia_driver"][system]["__nvidia_driver_plan"]["refused"] == ""


@pytest.mark.parametrize(
    ("system", "package"),
    [
        ("Debian 12", "nvidia-kernel-open-dkms"),
        ("Ubuntu 24", "libnvidia-compute-580"),
        ("Rocky 9", "kmod-nvidia-open-dkms"),
    ],
)
def test_the_drivers_role_asks_for_the_systems_own_packages(
    worked_out: Any, system: str, package: str
) -> None:
    asked = worked_out["nvidia_driver"][system]["__nvidia_driver_packages"]
    assert package in asked["packages"]
