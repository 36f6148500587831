"""One compile for several nodes, over Debian's own dkms, kernel headers and compiler. Needs root, and no lab.

Each node is a root file system of its own, over one that has dkms, a kernel with its modules and the kernel's headers. The
driver's package is a real one with a small real module, which is compiled as NVIDIA's would be. Nothing here can load a module.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils import dependent_modules
from ansible_collections.gpusmith.gpu.plugins.module_utils.built_modules import BuiltModulesError, Node
from gpulab.artifacts import debian

from gpusmith.built.cache import Cache, Entry
from gpusmith.built.key import Key
from gpusmith.built.once import BuildFailed, NotBuilt, Once
from gpusmith.built.signing import Signer
from gpusmith.probe import kernels, taken
from gpusmith.probe.module_file import modinfo
from tests.long import record
from tests.long.kernels import EXCLUDED, PACKAGES, SUITES
from tests.long.package_systems import APT, REPOSITORIES, Machine, made
from tests.unit.built.conftest import Pair

VERSION = "580.178.04"
NODES = 4
COMPILED = Path("/var/log/compiled")
MODULE = r"""
#include <linux/module.h>
#include <linux/fs.h>
#include <linux/slab.h>
static int __init begin(void) { void *room = kmalloc(64, GFP_KERNEL); kfree(room); return 0; }
static void __exit end(void) {}
module_init(begin);
module_exit(end);
MODULE_LICENSE("GPL");
MODULE_VERSION("%s");
"""
DKMS_CONF = f"""PACKAGE_NAME="nvidia"
PACKAGE_VERSION="{VERSION}"
BUILT_MODULE_NAME[0]="nvidia"
DEST_MODULE_LOCATION[0]="/kernel/drivers/video"
BUILT_MODULE_NAME[1]="nvidia-uvm"
DEST_MODULE_LOCATION[1]="/kernel/drivers/video"
AUTOINSTALL="yes"
MAKE[0]="make -C ${{kernel_source_dir}} M=${{dkms_tree}}/nvidia/{VERSION}/build && echo $kernelver >> {COMPILED}"
CLEAN="true"
"""
# In the form of GDRCopy's package: against whatever sources of a driver there are.
GDRDRV = {
    "gdrdrv.c": """
#include <linux/module.h>
#include "nv-p2p.h"
MODULE_LICENSE("GPL");
MODULE_INFO(built_for, DRIVER);
""",
    "Makefile": "obj-m := gdrdrv.o\nccflags-y += -I$(NVIDIA_SRC_DIR)\n",
    "dkms.conf": """PACKAGE_NAME="gdrdrv"
PACKAGE_VERSION="2.6"
BUILT_MODULE_NAME[0]="gdrdrv"
DEST_MODULE_LOCATION[0]="/kernel/drivers/misc"
AUTOINSTALL="yes"
MAKE[0]="make -C ${kernel_source_dir} M=${dkms_tree}/gdrdrv/2.6/build NVIDIA_SRC_DIR=$(echo /usr/src/nvidia-*)"
CLEAN="true"
""",
}
POSTINST = f"""#!/bin/sh
set -e
if [ "$1" = configure ]; then /usr/lib/dkms/common.postinst nvidia {VERSION} /usr/share/nvidia "" "$2"; fi
"""
PRERM = f"""#!/bin/sh
set -e
if [ -n "$(dkms status -m nvidia -v {VERSION})" ]; then dkms remove -m nvidia -v {VERSION} --all; fi
"""


def run(words: Sequence[str]) -> tuple[int, str, str]:
    """A program, as module built_modules runs it."""
    done = subprocess.run(
        list(words),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C", "LANGUAGE": "C"},
        stdin=subprocess.DEVNULL,
    )
    return done.returncode, done.stdout, done.stderr


def must(*words: str) -> str:
    status, output, errors = run(words)
    assert status == 0, f"{' '.join(words)}: {output}{errors}"
    return output


def kernel() -> str:
    """The kernel that the system has headers for."""
    return next(path.parent.name for path in sorted(Path("/lib/modules").glob("*/build")))


def make_package(folder: Path) -> None:
    """A driver for DKMS, as a package."""
    tree = folder / "tree"
    source = tree / f"usr/src/nvidia-{VERSION}"
    source.mkdir(parents=True)
    for name in ("nvidia", "nvidia-uvm"):
        (source / f"{name}.c").write_text(MODULE % VERSION)
    (source / "Makefile").write_text("obj-m := nvidia.o nvidia-uvm.o\n")
    (source / "dkms.conf").write_text(DKMS_CONF)
    control = tree / "DEBIAN"
    control.mkdir()
    (control / "control").write_text(
        f"Package: nvidia-kernel-open-dkms\nVersion: {VERSION}-1\nArchitecture: all\nMaintainer: nobody <a@b.invalid>\n"
        "Depends: dkms\nDescription: a test\n"
    )
    for name, text in {"postinst": POSTINST, "prerm": PRERM}.items():
        (control / name).write_text(text)
        (control / name).chmod(0o755)
    subprocess.run(
        ["dpkg-deb", "--build", "--root-owner-group", tree, folder / "driver.deb"],
        check=True,
        capture_output=True,
    )
    shutil.rmtree(tree)


@dataclass
class System:
    """A node.

    Attributes:
        machine: what all nodes share.
        folder: what this one has changed.
        shared: outside, a folder that all see at REPOSITORIES.
    """

    name: str
    machine: Machine
    folder: Path
    shared: Path

    def inside(self, work: Callable[[Node], Any]) -> Any:
        """What work on this node returned. A refusal of module built_modules comes as it does from Ansible."""
        answer = self.shared / f"{self.name}.json"

        def enter() -> None:
            for place in ("/sys",):
                Path(place).mkdir(exist_ok=True)
            told: dict[str, Any] = {}
            try:
                told["value"] = work(Node(run, modinfo, VERSION))
            except BuiltModulesError as error:
                told.update(outcome=error.outcome, msg=error.message)
            (REPOSITORIES / answer.name).write_text(json.dumps(told))

        self.machine.run(enter, self.folder)
        told = json.loads(answer.read_text())
        if "outcome" in told:
            raise (BuildFailed if told["outcome"] == "build" else NotBuilt)(told["msg"])
        return told["value"]

    def install(self, withheld: bool) -> float:
        """Install the driver's package; seconds."""

        def work(node: Node) -> float:
            if withheld:
                node.withhold()
            begun = time.monotonic()
            try:
                must("dpkg", "--install", f"{REPOSITORIES}/driver.deb")
            finally:
                node.allow()
            return time.monotonic() - begun

        return float(self.inside(work))

    # --- what `once` asks for ------------------------------------------------------------------------------------

    def build(self, release: str, target: Path) -> tuple[Mapping[str, Any], bool]:
        def work(node: Node) -> list[Any]:
            compiled = node.build(release)
            return [node.pack(release, REPOSITORIES / f"{self.name}.tar.gz"), compiled]

        manifest, compiled = self.inside(work)
        shutil.move(self.shared / f"{self.name}.tar.gz", target)
        return manifest, compiled

    def take(self, entry: Entry) -> None:
        shutil.copy(entry.archive, self.shared / f"{self.name}.tar.gz")
        self.inside(
            lambda node: node.take(REPOSITORIES / f"{self.name}.tar.gz", entry.manifest, entry.builder)
        )

    # --- what tests look at --------------------------------------------------------------------------------------

    @property
    def compiled(self) -> list[str]:
        """Kernels for which make has run here."""
        path = self.folder / "upper" / COMPILED.relative_to("/")
        return path.read_text().split() if path.exists() else []

    def look(self) -> dict[str, Any]:
        """What the node's own programs and the probe say."""

        def work(_node: Node) -> dict[str, Any]:
            release, errors = kernel(), []  # type: tuple[str, list[str]]
            fields = ("filename", "version", "vermagic", "signer", "srcversion")
            said = {
                field: run(["modinfo", "-k", release, "-F", field, "nvidia"])[1].strip() for field in fields
            }
            found = taken.gather(errors)
            return {
                **said,
                "status": must("dkms", "status"),
                "needs": must("modprobe", "-S", release, "--show-depends", "nvidia").strip(),
                "taken": [
                    [row.builder, all(file.same for file in row.files), len(row.files)] for row in found
                ],
                "errors": errors,
                "own": _node._vermagic_of_kernel(release),
            }

        found: dict[str, Any] = self.inside(work)
        return found


@pytest.fixture(scope="module", params=SUITES)
def machine(request: pytest.FixtureRequest) -> Iterator[tuple[str, Machine, Path]]:
    """A kind of system, and a folder for what nodes of it change."""
    if os.geteuid() != 0:
        pytest.skip("systems of their own need root")
    if os.uname().machine != "x86_64":
        pytest.skip("the kernel's packages are named for amd64")
    suite = SUITES[request.param]
    rootfs = debian.Rootfs(f"dkms-{suite}", suite, "minbase", PACKAGES, EXCLUDED, unpacked=True)
    root = made(rootfs)
    with tempfile.TemporaryDirectory(prefix="gpusmith-build-once-") as name:
        folder = Path(name)
        (folder / "shared").mkdir()
        make_package(folder / "shared")
        yield request.param, Machine(APT, str(root), folder / "shared", {}, folder / "memory"), folder


@pytest.fixture
def systems(
    machine: tuple[str, Machine, Path],
    record_property: Callable[[str, object], None],
    request: pytest.FixtureRequest,
) -> Iterator[list[System]]:
    name, made, folder = machine
    record_property(record.ROW, f"{name}: {request.node.originalname}")
    found = [
        System(f"node-{number}", made, folder / f"node-{number}", made.repositories)
        for number in range(NODES)
    ]
    yield found
    for system in found:
        shutil.rmtree(system.folder, ignore_errors=True)


def key(release: str, signer: Signer | None = None) -> Key:
    return Key(release, "x86_64", VERSION, "open", "debian", "nvidia", signer.fingerprint if signer else "")


def test_of_several_nodes_one_compiles(
    systems: list[System], tmp_path: Path, measured: Callable[..., None]
) -> None:
    first, *others = systems
    release = first.inside(lambda _node: kernel())
    # As it is without: the package compiles on each node.
    plain = systems[-1]
    alone = plain.install(withheld=False)
    assert plain.compiled == [release]
    shutil.rmtree(plain.folder)

    packages = sum(system.install(withheld=True) for system in systems)
    assert [system.compiled for system in systems] == [[]] * NODES
    cache = Cache(str(tmp_path / "cache"))
    begun = time.monotonic()
    came = [Once(cache, system.name, "run").provide(key(release), system) for system in systems]
    once = packages + time.monotonic() - begun
    assert [system.compiled for system in systems] == [[release], [], [], []]
    assert [each.builder for each in came] == ["node-0"] * NODES
    seen = [system.look() for system in systems]
    for row in seen:
        assert row["filename"].startswith(f"/lib/modules/{release}/updates/dkms/nvidia.ko")
        assert row["needs"].startswith("insmod ")
        assert f"nvidia/{VERSION}, {release}, x86_64: installed" in row["status"]
        assert (row["version"], row["errors"]) == (VERSION, [])
        assert row["vermagic"] == row["own"].strip() == seen[0]["vermagic"]
        assert row["srcversion"] == seen[0]["srcversion"] != ""
    assert [row["taken"] for row in seen] == [[], *[[["node-0", True, 2]]] * (NODES - 1)]
    measured(
        "measured",
        f"{NODES} nodes, one compile: {once:.1f} s one after another with dpkg; compiling on each: {alone * NODES:.1f} s;"
        f" ratio {once / (alone * NODES):.2f}; a take {(once - packages - came[0].seconds) / len(others):.1f} s",
    )


def test_a_taken_module_goes_with_its_package_and_the_next_kernel_is_built(
    systems: list[System], tmp_path: Path
) -> None:
    builder, other, *_rest = systems
    release = builder.inside(lambda _node: kernel())
    cache = Cache(str(tmp_path / "cache"))
    for system in (builder, other):
        system.install(withheld=True)
        Once(cache, system.name, "run").provide(key(release), system)
    # DKMS has the sources, as ever: what a later kernel asks for.
    other.inside(lambda _node: must("dkms", "unbuild", "-m", "nvidia", "-v", VERSION, "-k", release))
    other.inside(lambda _node: must("dkms", "autoinstall", "-k", release))
    assert other.compiled == [release]
    # And what was built there is taken over, with all that DKMS keeps.
    Once(cache, other.name, "run").provide(key(release), other)
    assert other.look()["taken"] == [["node-0", True, 2]]

    def remove(_node: Node) -> list[str]:
        must("dpkg", "--remove", "nvidia-kernel-open-dkms")
        left = [
            *Path("/lib/modules").glob("*/updates/**/nvidia*.ko*"),
            *Path("/var/lib/dkms").glob("nvidia*"),
        ]
        return [str(path) for path in [*left, *Path("/etc/dkms").glob("nvidia*")]]

    assert other.inside(remove) == []


def test_scripts_of_rpms_build_nothing_either(systems: list[System]) -> None:
    """NVIDIA's dkms-nvidia.spec adds, builds and installs, whatever comes of it."""

    def work(node: Node) -> list[int]:
        must("dpkg-deb", "--extract", f"{REPOSITORIES}/driver.deb", "/")
        named = ("-m", "nvidia", "-v", VERSION, "-k", kernel())
        node.withhold()
        ended = [run(["dkms", "add", *named[:4]])[0]]
        ended += [run(["dkms", "build", *named])[0], run(["dkms", "install", *named, "--force"])[0]]
        node.allow()
        return ended

    assert systems[0].inside(work) == [0, 77, 77]
    assert systems[0].compiled == []


def test_a_module_of_others_is_built_for_the_driver_that_came(systems: list[System]) -> None:
    node = systems[0]
    header, source = Path(f"/usr/src/nvidia-{VERSION}/nv-p2p.h"), Path("/usr/src/gdrdrv-2.6")

    def told() -> list[Any]:
        release = kernel()
        (found,) = [each for each in kernels.find() if each.release == release]
        said = run(["modinfo", "-k", release, "-F", "built_for", "gdrdrv"])[1].strip()
        return [dict(found.dependents), said]

    def prepare(_node: Node) -> list[Any]:
        must("dpkg", "--install", f"{REPOSITORIES}/driver.deb")
        header.write_text('#define DRIVER "the first"\n')
        source.mkdir()
        for name, text in GDRDRV.items():
            (source / name).write_text(text)
        must("dkms", "install", "-m", "gdrdrv", "-v", "2.6", "-k", kernel())
        return told()

    def change(_node: Node) -> list[Any]:
        header.write_text('#define DRIVER "the second"\n')
        named = ("-m", "nvidia", "-v", VERSION, "-k", kernel())
        must("dkms", "unbuild", *named)
        must("dkms", "install", *named)
        return told()

    def rebuild(_node: Node) -> list[Any]:
        dependent_modules.rebuild(run, "gdrdrv", kernel())
        return told()

    assert node.inside(prepare) == [{"gdrdrv": True}, "the first"]
    # The module is there and loads no more, and DKMS says that all is well.
    assert node.inside(change) == [{"gdrdrv": False}, "the first"]
    assert node.inside(rebuild) == [{"gdrdrv": True}, "the second"]
    node.inside(lambda _node: header.write_text("#define OTHERWISE\n"))
    with pytest.raises(NotBuilt, match="DRIVER"):
        node.inside(rebuild)
    # It is there no more: the next run builds it.
    assert node.inside(lambda _node: told()) == [{"gdrdrv": False}, ""]
    node.inside(lambda _node: header.write_text('#define DRIVER "the third"\n'))
    assert node.inside(rebuild) == [{"gdrdrv": True}, "the third"]


def test_modules_are_signed_on_the_controller(systems: list[System], tmp_path: Path) -> None:
    signer = Pair(tmp_path, "site modules").load()
    release = systems[0].inside(lambda _node: kernel())
    cache = Cache(str(tmp_path / "cache"))
    for system in systems[:2]:
        system.install(withheld=True)
        Once(cache, system.name, "run", signer).provide(key(release, signer), system)
        seen = system.look()
        assert seen["signer"] == "site modules"
        assert seen["taken"] == [["node-0", True, 2]]
    assert [system.compiled for system in systems[:2]] == [[release], []]

    def keys(_node: Node) -> list[str]:
        """Private keys outside of DKMS's own."""
        found = run(
            ["grep", "--recursive", "--files-with-matches", "PRIVATE KEY", "/etc", "/var", "/tmp", "/root"]
        )[1]
        return [path for path in found.splitlines() if not path.startswith("/var/lib/dkms/mok.")]

    assert systems[0].inside(keys) == systems[1].inside(keys) == []


def test_modules_that_each_node_has_signed_are_signed_anew_and_not_compiled(
    systems: list[System], tmp_path: Path
) -> None:
    """As DKMS leaves them for a kernel that came between two runs."""
    signer = Pair(tmp_path, "site modules", number=0x0FAB12).load()
    first, second = systems[:2]
    release = first.inside(lambda _node: kernel())
    cache = Cache(str(tmp_path / "cache"))

    def signed(_node: Node) -> list[str | None]:
        errors: list[str] = []
        rows = [row for row in kernels.gather(kernels.ask(), errors) if row.release == release]
        assert errors == []
        return [value for row in rows for value in (row.module_version, row.signer, row.signing_key)]

    for system in (first, second):
        system.install(withheld=False)
        version, name, key_of_dkms = system.inside(signed)
        assert (version, name) == (VERSION, "DKMS module signing key")
        assert key_of_dkms not in ("", None, signer.number)
        Once(cache, system.name, "run", signer).provide(key(release, signer), system)
        assert system.inside(signed) == [VERSION, "site modules", "fab12"]
        assert system.compiled == [release]
        assert system.look()["taken"] == [["node-0", True, 2]]


def test_a_compiler_that_fails_is_told_and_leaves_the_package_whole(
    systems: list[System], tmp_path: Path
) -> None:
    ill, well, *_rest = systems
    release = ill.inside(lambda _node: kernel())
    cache = Cache(str(tmp_path / "cache"))
    ill.install(withheld=True)

    def damage(_node: Node) -> None:
        path = Path(f"/usr/src/nvidia-{VERSION}/nvidia.c")
        path.write_text(path.read_text().replace("kmalloc(64", "pci_resize_resource(64"))

    ill.inside(damage)
    with pytest.raises(BuildFailed, match="pci_resize_resource"):
        Once(cache, ill.name, "run").provide(key(release), ill)
    state = "dpkg-query --show --showformat='${db:Status-Abbrev}' nvidia-kernel-open-dkms"
    assert ill.inside(lambda _node: must("sh", "-c", state)).strip() == "ii"
    well.install(withheld=True)
    came = Once(cache, well.name, "run").provide(key(release), well)
    assert came.after == ("node-0",)
    # The next run repairs the first one.
    Once(cache, ill.name, "the next run").provide(key(release), ill)
    assert (ill.compiled, well.compiled) == ([], [release])
