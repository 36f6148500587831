"""Modules built on one machine and taken by another, over the simulated dkms; tests/long has the real one."""

from __future__ import annotations

import copy
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpusmith.gpu.plugins.module_utils import built_modules
from ansible_collections.gpusmith.gpu.plugins.module_utils.built_modules import BuiltModulesError, Node
from gpulab.simgpu import packages, source_dir

from gpusmith.probe import taken
from gpusmith.probe.module_file import modinfo

VERSION, KERNEL, OTHER = "580.178.04", "6.1.0-40-amd64", "6.1.0-41-amd64"
NAME = "nvidia"


class Machine:
    """A machine with the driver's package for DKMS."""

    def __init__(self, root: Path, driver: packages.Driver) -> None:
        self.root, self.ran = root, []  # type: tuple[Path, list[str]]
        self.forces = True
        for kernel in (KERNEL, OTHER):
            (root / "lib/modules" / kernel / "build").mkdir(parents=True)
        folder = root / f"usr/src/{NAME}-{VERSION}"
        folder.mkdir(parents=True)
        for module in ("nvidia", "nvidia-uvm"):
            shutil.copy(driver.part(f"open/{module}.o"), folder / f"{module}.simulated.o")
        text = f'PACKAGE_NAME="{NAME}"\nPACKAGE_VERSION="{VERSION}"\n'
        (folder / "dkms.conf").write_text(text)
        self.node = Node(self.run, modinfo, VERSION, root)

    def run(self, words: Sequence[str]) -> tuple[int, str, str]:
        self.ran.append(" ".join(words))
        if words[:3] == ["modinfo", "-F", "vermagic"]:
            return 0, modinfo(Path(words[3]).read_bytes())["vermagic"] + "\n", ""
        if words[0] == "modinfo":
            return 0, "DKMS module signing key\n", ""
        if words[:2] == ["dkms", "install"] and not self.forces and self.is_installed():
            return 0, f"Module {NAME}/{VERSION} already installed on kernel {KERNEL}.\n", ""
        program = source_dir() / "packages/dkms.py"
        done = subprocess.run(
            [sys.executable, program, *words[1:]],
            env={**os.environ, "SIMGPU_TEST_ROOT": str(self.root)},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def is_installed(self) -> bool:
        """Whether DKMS has installed a module for the kernel, whatever became of its file."""
        return f", {KERNEL}, {platform.machine()}: installed" in self.run(["dkms", "status"])[1]

    def install_package(self) -> None:
        """What the package's script does."""
        status, output, errors = self.run(["dkms", "postinst", "-m", NAME, "-v", VERSION, "-k", KERNEL])
        assert status == 0, output + errors

    @property
    def compiled(self) -> list[str]:
        """Kernels that this machine has compiled for."""
        path = self.root / "var/log/simgpu-compiled.jsonl"
        lines = path.read_text().splitlines() if path.is_file() else []
        return [json.loads(line)["kernel"] for line in lines]

    def module(self, kernel: str = KERNEL) -> Path:
        return self.root / f"lib/modules/{kernel}/updates/dkms/nvidia.ko"

    def look(self) -> tuple[taken.Taken, ...]:
        """What the probe sees."""
        errors: list[str] = []
        found = taken.gather(errors, str(self.root))
        assert errors == []
        return found


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> packages.Driver:
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed (lab/simgpu/host.txt)")
    return packages.Driver(tmp_path_factory.mktemp("driver"), VERSION, 13000)


@pytest.fixture
def builder(driver: packages.Driver, tmp_path: Path) -> Machine:
    made = Machine(tmp_path / "builder", driver)
    made.install_package()
    return made


@pytest.fixture
def other(driver: packages.Driver, tmp_path: Path) -> Machine:
    """Its package was installed while DKMS was kept from building."""
    made = Machine(tmp_path / "other", driver)
    assert made.node.withhold()
    made.install_package()
    assert made.node.allow()
    return made


@pytest.fixture
def packed(builder: Machine, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    archive = tmp_path / "modules.tar.gz"
    builder.node.build(KERNEL)
    return archive, builder.node.pack(KERNEL, archive)


def refused(machine: Machine, archive: Path, manifest: dict[str, Any]) -> str:
    """Why modules are not taken; nothing has changed."""
    before = sorted(machine.root.rglob("*"))
    with pytest.raises(BuiltModulesError) as told:
        machine.node.take(archive, manifest, "gpu-1")
    assert told.value.outcome == "unfit"
    assert sorted(machine.root.rglob("*")) == before
    return str(told.value.message)


def test_facts_are_the_probes() -> None:
    assert (built_modules.SCHEMA, f"/{built_modules.NOTES}") == (taken.SCHEMA, taken.NOTES)


def test_every_name_that_packagers_give_the_module_is_known() -> None:
    tables = [yaml.safe_load(path.read_text()) for path in (source_dir() / "packages").glob("*.yml")]
    names = {row["dkms"]["name"] for table in tables for row in table.get("packages", ()) if "dkms" in row}
    assert names
    assert names <= set(built_modules.NAMES)


def test_a_package_builds_nothing_while_dkms_is_kept_from_it(other: Machine) -> None:
    assert (other.compiled, other.module().exists()) == ([], False)
    # Nothing of it stays, so that later kernels get their modules as ever.
    assert not (other.root / "etc/dkms").exists()
    assert other.run(["dkms", "autoinstall", "-k", OTHER])[0] == 0
    assert other.compiled == [OTHER]


def test_a_file_of_an_administrator_stays(builder: Machine) -> None:
    own = builder.root / f"etc/dkms/{NAME}-{VERSION}.conf"
    own.parent.mkdir(parents=True)
    own.write_text('MAKE="make special"\n')
    assert builder.node.withhold()
    assert builder.node.allow()
    assert own.read_text() == 'MAKE="make special"\n'
    assert not builder.node.allow()


def test_a_boot_lets_dkms_build_again(builder: Machine) -> None:
    """A run that was killed in between must not cost the next kernel its modules."""
    assert builder.node.withhold()
    assert builder.run(["dkms", "build", "-m", NAME, "-v", VERSION, "-k", OTHER])[0] == 77
    shutil.rmtree(builder.root / "run")
    assert builder.run(["dkms", "build", "-m", NAME, "-v", VERSION, "-k", OTHER])[0] == 0
    assert builder.node.allow()
    assert not (builder.root / "etc/dkms").exists()


def test_what_one_has_built_another_one_has(
    builder: Machine, other: Machine, packed: tuple[Path, dict[str, Any]]
) -> None:
    archive, manifest = packed
    other.node.take(archive, manifest, "gpu-1")
    assert (builder.compiled, other.compiled) == ([KERNEL], [])
    assert other.module().read_bytes() == builder.module().read_bytes()
    assert modinfo(other.module().read_bytes())["compiled_on"] == platform.node()
    assert f"{NAME}/{VERSION}, {KERNEL}, {platform.machine()}: installed" in other.run(["dkms", "status"])[1]
    (seen,) = other.look()
    assert (seen.kernel, seen.version, seen.builder) == (KERNEL, VERSION, "gpu-1")
    assert seen.signer == "DKMS module signing key"
    assert [(file.is_there, file.same, file.version) for file in seen.files] == [(True, True, VERSION)] * 2
    # It was there before: a call that was killed is repeated.
    other.node.take(archive, manifest, "gpu-1")
    assert other.compiled == []
    # The next kernel is the node's own affair, and removal leaves no module.
    assert other.run(["dkms", "autoinstall", "-k", OTHER])[0] == 0
    assert other.compiled == [OTHER]
    other.run(["dkms", "remove", "-m", NAME, "-v", VERSION, "--all"])
    assert not other.module().exists()


def test_what_was_built_before_is_packed_without_a_build(builder: Machine) -> None:
    assert builder.node.build(KERNEL) is False
    assert builder.node.build(OTHER) is True
    assert builder.compiled == [KERNEL, OTHER]


def test_a_node_that_builds_itself_has_no_note_of_what_it_took_before(
    other: Machine, packed: tuple[Path, dict[str, Any]]
) -> None:
    other.node.take(*packed, "gpu-1")
    # What DKMS keeps is installed anew, so that no damage is forgotten with the note.
    other.module().write_bytes(b"damaged")
    other.node.build(KERNEL)
    assert other.look() == ()
    assert modinfo(other.module().read_bytes())["version"] == VERSION


def test_what_was_changed_is_put_back_and_its_note_is_true_again(
    other: Machine, packed: tuple[Path, dict[str, Any]]
) -> None:
    other.node.take(*packed, "gpu-1")
    other.module().write_bytes(b"damaged")
    other.node.restore(KERNEL)
    (seen,) = other.look()
    assert [file.same for file in seen.files] == [True, True]
    assert other.compiled == []


def test_modules_that_went_with_another_name_come_back(builder: Machine) -> None:
    """As on EL, where removing 'nvidia-open' takes the files that 'nvidia' has put in their place."""
    builder.module().unlink()
    assert builder.node.build(KERNEL) is False
    assert modinfo(builder.module().read_bytes())["version"] == VERSION


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"damaged")])
def test_a_dkms_that_installs_nothing_twice_puts_modules_back_as_well(
    other: Machine, packed: tuple[Path, dict[str, Any]], damage: Callable[[Path], Any]
) -> None:
    """dkms 2.8 of Ubuntu 22.04 has no --force for what it has installed (maybe_install_module of tag v2.8.7, read 2026-11-25)."""
    other.forces = False
    other.node.take(*packed, "gpu-1")
    damage(other.module())
    other.node.restore(KERNEL)
    assert [file.same for file in other.look()[0].files] == [True, True]
    # Of the node's own, too.
    (other.root / built_modules.NOTES / f"{KERNEL}.json").unlink()
    damage(other.module())
    assert other.node.build(KERNEL) is False
    assert modinfo(other.module().read_bytes())["version"] == VERSION


def test_only_the_drivers_own_module_is_built() -> None:
    """Those of others are theirs to build, and one that does not would fail the driver's."""
    states = ["zfs/2.1.11", "nvidia-fs/2.26.6", f"nvidia-srv/{VERSION}"]
    ran: list[str] = []

    def run(words: Sequence[str]) -> tuple[int, str, str]:
        ran.append(" ".join(words))
        return 0, "".join(f"{state}, {OTHER}, {platform.machine()}: installed\n" for state in states), ""

    assert Node(run, modinfo, VERSION, Path("/nonexistent")).build(KERNEL) is True
    named = f"-m nvidia-srv -v {VERSION} -k {KERNEL}"
    assert ran == ["dkms status", f"dkms build {named}", f"dkms install {named}"]


def test_a_build_that_fails_says_what_the_compiler_said(builder: Machine) -> None:
    (builder.root / "lib/modules" / OTHER / "build").rmdir()
    with pytest.raises(BuiltModulesError, match="Your kernel headers for kernel") as told:
        builder.node.build(OTHER)
    assert told.value.outcome == "build"


# Lines of a real one: Debian's open module of 535.261.03 and its kernel 6.1.0-56.
LOG = """DKMS make.log for {name}-{version} for kernel {kernel} (x86_64)
Mon Nov 23 00:06:01 UTC 2026
  gcc-12 -Werror=strict-prototypes -c -o /var/lib/dkms/{name}/{version}/build/nvidia/nv-pci.o
/var/lib/dkms/{name}/{version}/build/nvidia/nv-pci.c: In function \u2018nv_resize_pcie_bars\u2019:
/var/lib/dkms/{name}/{version}/build/nvidia/nv-pci.c:223:9: error: too few arguments to function \u2018pci_resize_resource\u2019
  223 |     r = pci_resize_resource(pci_dev, NV_GPU_BAR1, requested_size);
      |         ^~~~~~~~~~~~~~~~~~~
make[3]: *** [/usr/src/linux-headers/scripts/Makefile.build:255: nv-pci.o] Error 1
make: *** [Makefile:137: modules] Error 2
"""
SAID = "nv-pci.c:223:9: error: too few arguments to function 'pci_resize_resource'."


def fails_to_compile(machine: Machine, kernel: str) -> Path:
    """What a build leaves that fails."""
    log = machine.root / f"var/lib/dkms/{NAME}/{VERSION}/build/make.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(LOG.format(name=NAME, version=VERSION, kernel=kernel))
    return log


def test_a_compiler_is_quoted_with_module_kernel_and_log(builder: Machine) -> None:
    log = fails_to_compile(builder, OTHER)
    (builder.root / "lib/modules" / OTHER / "build").rmdir()
    with pytest.raises(BuiltModulesError) as told:
        builder.node.build(OTHER)
    start = f"Module '{NAME}' of driver {VERSION} does not compile for kernel '{OTHER}': {SAID}"
    assert told.value.message == f"{start} The whole log is '{log}' there."


def test_the_log_of_another_kernel_is_not_quoted(builder: Machine) -> None:
    fails_to_compile(builder, KERNEL)
    (builder.root / "lib/modules" / OTHER / "build").rmdir()
    with pytest.raises(BuiltModulesError, match="Your kernel headers for kernel"):
        builder.node.build(OTHER)


def test_a_package_is_finished_without_the_module_that_does_not_compile(other: Machine) -> None:
    log, seen = fails_to_compile(other, KERNEL), list[int]()

    def repair() -> bool:
        seen.append(other.run(["dkms", "build", "-m", NAME, "-v", VERSION, "-k", KERNEL])[0])
        log.unlink()
        return True

    with pytest.raises(BuiltModulesError, match="too few arguments") as told:
        other.node.mend(repair)
    assert told.value.outcome == "build"
    # It was kept from building meanwhile, no longer is, and the log is where the message says.
    assert seen == [77]
    assert not (other.root / "etc/dkms").exists()
    assert "pci_resize_resource" in log.read_text()


def test_what_failed_for_another_reason_is_no_matter_of_modules(other: Machine) -> None:

    def repair() -> bool:
        raise AssertionError("nothing is half done")

    assert other.node.mend(repair) is False
    # A log of days ago, and nothing that is half done.
    fails_to_compile(other, KERNEL)
    assert other.node.mend(lambda: False) is False


def test_without_the_package_nothing_is_built(tmp_path: Path, driver: packages.Driver) -> None:
    machine = Machine(tmp_path / "bare", driver)
    with pytest.raises(BuiltModulesError, match=f"knows no driver {VERSION}") as told:
        machine.node.build(KERNEL)
    assert told.value.outcome == "dkms"


def test_what_does_not_fit_is_refused_before_anything_changes(
    other: Machine, packed: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    archive, good = packed

    def but(**changes: Any) -> dict[str, Any]:
        return {**copy.deepcopy(good), **changes}

    assert "machines of kind 's390x'" in refused(other, archive, but(machine="s390x"))
    assert "are of driver 580.95.05" in refused(other, archive, but(version="580.95.05"))
    # Said to be for the other kernel, which the archive denies.
    assert "its archive has" in refused(other, archive, but(kernel=OTHER))
    short = but()
    del short["files"]["nvidia-uvm.ko"]
    assert "there are 'nvidia-uvm.ko', 'nvidia.ko', and not 'nvidia.ko'" in refused(other, archive, short)
    wrong = but()
    wrong["files"]["nvidia.ko"]["sha256"] = "0" * 64
    assert "the checksum of 'nvidia.ko'" in refused(other, archive, wrong)
    foreign = tmp_path / "foreign.tar.gz"
    with tarfile.open(foreign, "w:gz") as out:
        out.add(archive, "./dkms_main_tree/../../etc/passwd")
    assert "its archive has" in refused(other, foreign, good)


def test_modules_of_another_kernel_are_refused_by_their_own_word(
    builder: Machine, other: Machine, tmp_path: Path
) -> None:
    builder.node.build(OTHER)
    folder = builder.root / f"var/lib/dkms/{NAME}/{VERSION}"
    wrong = folder / OTHER / platform.machine() / "module/nvidia.ko"
    shutil.copy(folder / KERNEL / platform.machine() / "module/nvidia.ko", wrong)
    with pytest.raises(BuiltModulesError, match=f"'nvidia.ko' is for kernel '{KERNEL} SMP"):
        builder.node.pack(OTHER, tmp_path / "wrong.tar.gz")
    # A kernel's own modules say more than its name: a kernel that was compiled otherwise.
    kernel = other.root / "lib/modules" / KERNEL / "kernel/net"
    kernel.mkdir(parents=True)
    data = builder.module().read_bytes().replace(b"mod_unload modversions", b"mod_unload aaaversions")
    (kernel / "net.ko").write_bytes(data)
    archive = tmp_path / "modules.tar.gz"
    manifest = builder.node.pack(KERNEL, archive)
    assert "and this is '6.1.0-40-amd64 SMP preempt mod_unload aaaversions'" in refused(
        other, archive, manifest
    )


def test_what_changes_afterwards_is_seen(other: Machine, packed: tuple[Path, dict[str, Any]]) -> None:
    other.node.take(*packed, "gpu-1")
    other.module().write_bytes(other.module().read_bytes() + b"x")
    other.module().with_name("nvidia-uvm.ko").unlink()
    (seen,) = other.look()
    assert {Path(file.path).name: (file.is_there, file.same) for file in seen.files} == {
        "nvidia.ko": (True, False),
        "nvidia-uvm.ko": (False, False),
    }
    # Of a kernel that is gone nothing is said.
    shutil.rmtree(other.root / "lib/modules" / KERNEL)
    assert other.look() == ()
