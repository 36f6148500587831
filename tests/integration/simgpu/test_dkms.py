"""The simulated dkms: what it keeps, what it refuses, and that its log of builds tells the truth."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from gpulab.simgpu import source_dir

KERNEL = "6.1.0-40-amd64"
OBJECT = (
    b"version=%s\0compiled_on=@COMPILED" + b"@" * 60 + b"\0vermagic=@VERMAGIC" + b"@" * 100 + b"\0"
)  # as lab/simgpu/src/module.c


class Dkms:
    """The program over a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "lib/modules" / KERNEL / "build").mkdir(parents=True)
        (root / "etc/dkms").mkdir(parents=True)

    def source(self, version: str, name: str = "nvidia") -> None:
        """What a package brings."""
        folder = self.root / f"usr/src/{name}-{version}"
        folder.mkdir(parents=True)
        (folder / "nvidia.simulated.o").write_bytes(OBJECT % version.encode())
        (folder / "dkms.conf").write_text(f'PACKAGE_NAME="{name}"\nPACKAGE_VERSION="{version}"\n')

    def __call__(self, *words: str, status: int = 0) -> str:
        program = source_dir() / "packages" / "dkms.py"
        done = subprocess.run(
            [sys.executable, program, *words],
            env={"SIMGPU_TEST_ROOT": str(self.root), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    def of(self, version: str) -> tuple[str, ...]:
        """Options that name a version for the kernel."""
        return "-m", "nvidia", "-v", version, "-k", KERNEL

    @property
    def installed(self) -> bytes:
        """The module that the kernel finds; empty if there is none."""
        path = self.root / "lib/modules" / KERNEL / "updates/dkms/nvidia.ko"
        return path.read_bytes() if path.is_file() else b""

    @property
    def compiled(self) -> list[str]:
        """Versions, in the order in which they were built."""
        path = self.root / "var/log/simgpu-compiled.jsonl"
        lines = path.read_text().splitlines() if path.is_file() else []
        return [json.loads(line)["version"] for line in lines]


@pytest.fixture
def dkms(tmp_path: Path) -> Dkms:
    made = Dkms(tmp_path)
    made.source("1")
    return made


def test_a_build_is_logged_once_and_names_its_machine(dkms: Dkms) -> None:
    dkms("postinst", *dkms.of("1"))
    dkms("install", *dkms.of("1"))
    dkms("autoinstall", "-k", KERNEL)
    assert dkms.compiled == ["1"]
    assert f"compiled_on={platform.node()}\0".encode() in dkms.installed
    assert f"vermagic={KERNEL} ".encode() in dkms.installed
    assert dkms("status") == f"nvidia/1, {KERNEL}, {platform.machine()}: installed\n"


def test_another_versions_modules_are_left(dkms: Dkms) -> None:
    """rpm removes an old package when the new one's modules are there already."""
    dkms.source("2")
    for version in ("1", "2"):
        dkms("postinst", *dkms.of(version))
    dkms("remove", "-m", "nvidia", "-v", "1", "--all")
    assert b"version=2" in dkms.installed
    dkms("remove", "-m", "nvidia", "-v", "2", "--all")
    assert not dkms.installed
    assert not (dkms.root / "var/lib/dkms/nvidia").exists()


def test_what_is_excluded_is_known_and_not_built(dkms: Dkms) -> None:
    exclusion = dkms.root / "etc/dkms/nvidia-1.conf"
    exclusion.write_text('if true; then BUILD_EXCLUSIVE_KERNEL="^$"; fi\n')
    assert "Skipped" in dkms("postinst", *dkms.of("1"))
    dkms("build", *dkms.of("1"), status=77)
    dkms("autoinstall", "-k", KERNEL)
    assert (dkms.compiled, dkms.installed) == ([], b"")
    assert dkms("status") == "nvidia/1: added\n"
    exclusion.unlink()
    dkms("autoinstall", "-k", KERNEL)
    assert dkms.compiled == ["1"]


def test_an_archive_of_built_modules_is_installed_without_a_build(dkms: Dkms, tmp_path: Path) -> None:
    dkms("add", "-m", "nvidia", "-v", "1")
    packed, tree = tmp_path / "built.tar.gz", tmp_path / "packed"
    module = tree / f"dkms_main_tree/{KERNEL}/{platform.machine()}/module"
    module.mkdir(parents=True)
    (module / "nvidia.ko").write_bytes(b"from elsewhere")
    (tree / "dkms_binaries_only").mkdir()
    text = (dkms.root / "usr/src/nvidia-1/dkms.conf").read_text()
    (tree / "dkms_binaries_only/dkms.conf").write_text(text)
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(tree, ".")
    dkms("ldtarball", "--archive", str(packed), status=8)
    dkms("ldtarball", "--archive", str(packed), "--force", status=3)
    assert ": built" in dkms("status")
    dkms("install", *dkms.of("1"))
    assert (dkms.compiled, dkms.installed) == ([], b"from elsewhere")
    dkms("uninstall", *dkms.of("1"))
    assert not dkms.installed


def test_without_headers_nothing_is_built(dkms: Dkms) -> None:
    (dkms.root / "lib/modules" / KERNEL / "build").rmdir()
    assert "skipped" in dkms("postinst", *dkms.of("1"))
    assert "headers" in dkms("build", *dkms.of("1"), status=21)
    assert dkms.compiled == []


def test_a_kernel_that_comes_gets_what_is_known_and_one_that_goes_takes_it_along(dkms: Dkms) -> None:
    other = "6.1.0-41-amd64"
    dkms("add", "-m", "nvidia", "-v", "1")
    dkms("kernel_postinst", "--kernelver", KERNEL)
    assert f"vermagic={KERNEL} ".encode() in dkms.installed
    # Its headers did not come.
    (dkms.root / "lib/modules" / other).mkdir()
    assert "headers" in dkms("kernel_postinst", "--kernelver", other, status=11)
    assert dkms("status") == f"nvidia/1, {KERNEL}, {platform.machine()}: installed\n"
    dkms("kernel_prerm", "-k", KERNEL)
    assert dkms("status") == "nvidia/1: added\n"
    assert not dkms.installed
    assert not (dkms.root / "lib/modules" / KERNEL / "updates").exists()
