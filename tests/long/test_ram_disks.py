"""Initial RAM disks block nouveau: those of Debian's initramfs-tools and dracut, for Debian's kernels. Needs root.

No kernel boots here: the images are unpacked, and their own modprobe is asked what it would load.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.long.driver_machines import DriverMachine, booting, started

CONFIG = "/etc/modprobe.d/gpusmith-nvidia-driver.conf"
# What udev asks modprobe to load for an H100.
GPU = "pci:v000010DEd00002330sv000010DEsd000016C1bc03sc02i00"
UNPACKED = "/tmp/unpacked"


@dataclass(frozen=True)
class Maker:
    """A program that makes initial RAM disks.

    Attributes:
        suite: Debian's code name.
        package: its name.
        version: of a driver of which Debian's archive has the branch, but not this release.
        site: file that brings nouveau into the images, as plymouth does.
        content: of that file.
        unpack: line of a shell.
    """

    suite: str
    package: str
    version: str
    site: str
    content: str
    unpack: str


MAKERS = [
    Maker(
        "bookworm",
        "initramfs-tools",
        "535.999.01",
        "/etc/initramfs-tools/modules",
        "nouveau\n",
        "unmkinitramfs {image} .",
    ),
    Maker(
        "trixie",
        "dracut",
        "550.999.01",
        "/etc/dracut.conf.d/site.conf",
        'add_dracutmodules+=" drm "\n',
        "lsinitrd --unpack {image}",
    ),
]
by_maker = pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.package)


@pytest.fixture
def machine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, root: Path
) -> Iterator[DriverMachine]:
    if os.uname().machine != "x86_64":
        pytest.skip("the kernel's packages are named for amd64")
    maker: Maker = request.getfixturevalue("maker")
    folder = tmp_path_factory.mktemp(maker.suite)
    with started(maker.suite, root, folder, booting(maker.suite, maker.package)) as there:
        there.write(maker.site, maker.content)
        yield there


def would_load(machine: DriverMachine, kernel: str, name: str) -> str:
    """What the modprobe of the unpacked image would load for a name, as udev asks it."""
    return machine.ask("chroot", UNPACKED, "modprobe", "-S", kernel, "-n", "-v", name, check=False)


@by_maker
def test_nouveau_is_blocked_for_every_kernel_before_packages_can_fail(
    machine: DriverMachine, maker: Maker, measured: Callable[[str, object], None]
) -> None:
    ended = machine.role(nvidia_driver_version=maker.version, nvidia_driver_kernel_headers=False)
    # Nothing of a driver comes: what is renewed later, by packages of the driver, would hide what is missing.
    assert ended.status != 0, ended
    assert f"'{maker.version}" in " ".join(ended.output.split()), ended
    assert not [name for name in machine.packages() if "nvidia" in name]
    block = machine.ask("cat", CONFIG)
    assert {"blacklist nouveau", "options nouveau modeset=0"} <= set(block.splitlines())
    kernels = machine.sh("ls /lib/modules").split()
    assert len(kernels) == 2
    for kernel in kernels:
        unpack = maker.unpack.format(image=f"/boot/initrd.img-{kernel}")
        machine.sh(f"rm -rf {UNPACKED} && mkdir {UNPACKED} && cd {UNPACKED} && {unpack} 2>&1")
        assert machine.ask("cat", f"{UNPACKED}{CONFIG}", check=False) == block, kernel
        # By its own name it could be loaded, where the kernel has it.
        assert ("nouveau.ko" in would_load(machine, kernel, "nouveau")) is ("cloud" not in kernel), kernel
        assert would_load(machine, kernel, GPU) == "", kernel
    measured("measured", f"{maker.package} in {ended.seconds:.0f} s: {len(kernels)} kernels; never booted")
