"""Ubuntu's own upgrades where modules come built: the real program on packages with Ubuntu's names. Needs root, and no lab."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from gpulab.artifacts import debian
from gpulab.artifacts.families import ARCHIVES
from gpulab.artifacts.sources import IMAGES

from tests.integration.families import test_real_apt as ubuntu
from tests.integration.plugins.packages import conftest as packages
from tests.long import package_systems as systems
from tests.unit.expect.role_plans import driver_plan
from tests.unit.families.test_leftovers import BEFORE, NEW, with_driver

ROOTFS = debian.Rootfs(
    "unattended-upgrades",
    "trixie",
    "minbase",
    ("gnupg", "lsb-release", "python3", "unattended-upgrades"),
    systems.EXCLUDED,
    unpacked=True,
)
IMAGE, MODULES, NEWER = "linux-image-generic", "6.8.0-79.79", "6.8.0-80.80"
# The system says that it is Ubuntu, and has Ubuntu's configuration of the program.
SYSTEM = {
    f"/{name}": (IMAGES / "node-ubuntu-24.04" / name).read_text()
    for name in ("usr/lib/os-release", "etc/lsb-release", "etc/apt/apt.conf.d/50unattended-upgrades")
}
ROWS = [
    *ubuntu.of_driver(BEFORE, MODULES),
    *ubuntu.of_driver(NEW, f"{MODULES}+1"),
    *((IMAGE, version, "") for version in (MODULES, NEWER)),
    *(("neighbour", version, "") for version in ("1.0", "1.1")),
]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Ubuntu's archive, from which unattended-upgrades takes everything that is newer."""
    return packages.made(tmp_path_factory, ROWS, ARCHIVES["ubuntu-security"])


def versions(there: packages.System) -> dict[str, str]:
    """All packages of a system."""
    return {name: each.version for name, each in there.apt.installed(["*"]).items()}


def upgrade() -> None:
    """As the timer does."""
    done = subprocess.run(["unattended-upgrade", "--debug"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All upgrades installed" in done.stderr + done.stdout, done.stdout + done.stderr


def test_driver_and_kernel_stay_until_they_are_released(repository: dict[str, Any], tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("a system of its own needs root")
    outside = Path(repository["given"]["uris"][0].removeprefix("file:"))
    machine = systems.Machine(systems.APT, str(systems.made(ROOTFS)), outside, {}, tmp_path)
    given = {**repository["given"], "uris": [f"file:{systems.REPOSITORIES}"]}

    def work() -> None:
        for name, text in SYSTEM.items():
            Path(name).write_text(text)
        there = packages.System(systems.APT.backend(), Path("/"), given, "")
        node = ubuntu.Node(there, ubuntu.ASKED)
        there.configure()
        there.apt.install({IMAGE: MODULES, "neighbour": "1.0"})
        assert not node.ask("gpusmith.gpu.packages", node.asked(BEFORE)).get("failed")
        before = versions(there)
        assert before[ubuntu.MODULES] == before[IMAGE] == MODULES
        upgrade()
        assert versions(there) == {**before, "neighbour": "1.1"}
        # What held them is what the role holds: when the driver goes, the kernel is the system's again.
        released = {"name": "nvidia-driver-kernel", "repository": None, "release": [IMAGE]}
        node.ask("gpusmith.gpu.packages", released)
        upgrade()
        assert versions(there) == {**before, "neighbour": "1.1", IMAGE: NEWER}

    # Inside, the repository's tables are not there: they are read once.
    driver_plan(with_driver([], BEFORE), ubuntu.ASKED, ubuntu.LAYOUTS)
    machine.run(work, tmp_path / "changes")
