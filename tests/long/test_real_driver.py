"""Role nvidia_driver over Debian's real driver packages, compiled against the headers of Debian's kernels. Needs root.

There is no GPU and none is simulated. What is built here is never loaded: the kernel that runs is not the one that it is for.
The tests of a system are one story, in the order in which they stand here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import Ended
from tests.long.driver_machines import DriverMachine, started

# Debian 12 has the first one in its main archive, the second one in that of security updates.
OLD, NEW = "535.261.03", "535.309.01"
TRIXIE = "550.163.01"
SIGNER = "DKMS module signing key"
NEVER = "built, never loaded"
OPEN, PROPRIETARY = "open", "proprietary"
OF_KIND = {
    OPEN: {"nvidia-open-kernel-dkms", "nvidia-open-kernel-support"},
    PROPRIETARY: {"nvidia-kernel-dkms", "nvidia-kernel-support"},
}
NAME = {OPEN: "nvidia-current-open", PROPRIETARY: "nvidia-current"}
# What a removal leaves: the user of a daemon, which Debian never deletes, and the key by which DKMS signs modules, which the
# firmware may have been told.
LEFT = re.compile(
    r"file /etc/(?:passwd|shadow|group|gshadow|subuid|subgid)-? "
    r"|file /var/lib/dkms/mok\.(?:key|pub) "
)
Measured = Callable[[str, object], None]


def machine_of(suite: str, factory: pytest.TempPathFactory, root: Path) -> Iterator[DriverMachine]:
    if os.uname().machine != "x86_64":
        pytest.skip("the kernel's packages are named for amd64")
    with started(suite, root, factory.mktemp(suite)) as machine:
        yield machine


@pytest.fixture(scope="module")
def bookworm(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[DriverMachine]:
    yield from machine_of("bookworm", tmp_path_factory, root)


@pytest.fixture(scope="module")
def bare_bookworm(bookworm: DriverMachine) -> set[str]:
    """What there was before any driver."""
    return bookworm.snapshot()


@pytest.fixture(scope="module")
def trixie(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[DriverMachine]:
    yield from machine_of("trixie", tmp_path_factory, root)


def has(machine: DriverMachine, version: str, kind: str, ended: Ended) -> None:
    """The driver is there whole, in one version and kind, held, and its module is built for Debian's kernel and no other one."""
    assert ended.status == 0, ended
    assert machine.half_done() == ""
    packages, held = machine.packages(), machine.held()
    of_driver = {
        name for name, full in packages.items() if re.match(r"\d{3}\.\d+\.\d+-", full) and _is_part(name)
    }
    assert {"nvidia-smi", "libcuda1", "libnvidia-ml1", *OF_KIND[kind]} <= of_driver
    assert {name: packages[name] for name in of_driver if not packages[name].startswith(f"{version}-")} == {}
    assert of_driver | {"nvidia-modprobe", "nvidia-persistenced"} <= held
    for other in {OPEN, PROPRIETARY} - {kind}:
        assert not OF_KIND[other] & set(packages)
        assert machine.modinfo("version", NAME[other]) == ""
    assert machine.modinfo("version", NAME[kind]) == version
    assert machine.modinfo("signer", NAME[kind]) == SIGNER
    assert machine.modinfo("vermagic", NAME[kind]).split()[0] == machine.kernel()
    assert (machine.modinfo("license", NAME[kind]) == "NVIDIA") is (kind == PROPRIETARY)
    # Which module 'nvidia' means, alternatives say.
    assert f"modprobe -i {NAME[kind]} " in machine.sh(f"modprobe -S {machine.kernel()} --show-depends nvidia")
    status = machine.ask("dkms", "status").splitlines()
    assert [line for line in status if line.startswith("nvidia")] == [
        f"{NAME[kind]}/{version}, {machine.kernel()}, x86_64: installed"
    ]


def _is_part(name: str) -> bool:
    return name not in ("nvidia-modprobe", "nvidia-persistenced") and (
        "nvidia" in name or name.startswith(("libcuda", "libnvcuvid", "libnvoptix"))
    )


def nothing_to_do(machine: DriverMachine, version: str, kind: str) -> None:
    ended = machine.role(nvidia_driver_version=version, nvidia_driver_module_flavour=kind)
    assert ended.recap()[machine.name]["changed"] == 0, ended
    assert ended.recap()[machine.name]["failed"] == 0, ended


def test_an_open_module_that_does_not_compile_is_told_as_that(
    bookworm: DriverMachine, bare_bookworm: set[str], measured: Measured
) -> None:
    """The open one of 535.261.03 does not know the fourth argument of a function of 6.1.0-56 and newer."""
    assert not [line for line in bare_bookworm if re.match("package .*(?:nvidia|glx)", line)]
    ended = bookworm.role(nvidia_driver_version=OLD, nvidia_driver_module_flavour=OPEN)
    assert ended.status != 0, ended
    said = " ".join(ended.output.split())
    log = f"/var/lib/dkms/{NAME[OPEN]}/{OLD}/build/make.log"
    assert (
        f"Module '{NAME[OPEN]}' of driver {OLD} does not compile for kernel '{bookworm.kernel()}': nv-pci.c:223:9: error:"
        f" too few arguments to function 'pci_resize_resource'. The whole log is '{log}' there." in said
    )
    assert "pci_resize_resource" in bookworm.ask("grep", "error:", log)
    # It was compiled once, and what is there is whole, so that anything can be installed next.
    assert bookworm.sh("grep -c 'Building initial module' /var/log/apt/term.log") == "1"
    assert bookworm.half_done() == ""
    assert bookworm.packages()["nvidia-open-kernel-dkms"].startswith(f"{OLD}-")
    assert (
        bookworm.sh("ls /etc/dkms /run/gpusmith 2>/dev/null | grep -c 'nvidia.*conf\\|withheld' || true")
        == "0"
    )
    measured("measured", f"failed after {ended.seconds:.0f} s, package repaired")


def test_the_next_run_with_the_proprietary_module_succeeds(
    bookworm: DriverMachine, measured: Measured
) -> None:
    ended = bookworm.role(nvidia_driver_version=OLD, nvidia_driver_module_flavour=PROPRIETARY)
    has(bookworm, OLD, PROPRIETARY, ended)
    nothing_to_do(bookworm, OLD, PROPRIETARY)
    measured("measured", f"{OLD} for {bookworm.kernel()}: {ended.seconds:.0f} s; {NEVER}")


@pytest.mark.parametrize("version", [NEW, OLD], ids=["newer", "and back"])
def test_another_version(bookworm: DriverMachine, version: str, measured: Measured) -> None:
    ended = bookworm.role(nvidia_driver_version=version, nvidia_driver_module_flavour=PROPRIETARY)
    has(bookworm, version, PROPRIETARY, ended)
    measured("measured", f"{version} for {bookworm.kernel()}: {ended.seconds:.0f} s; {NEVER}")


def test_a_module_that_no_kernel_here_can_load_is_no_success(bookworm: DriverMachine) -> None:
    asked: dict[str, Any] = {
        "nvidia_driver_module_flavour": PROPRIETARY,
        "nvidia_driver_ready_timeout_s": 30,
    }
    ended = bookworm.role("main", nvidia_driver_version=OLD, **asked)
    assert ended.status != 0, ended
    said = " ".join(ended.output.split())
    assert (
        f"the driver is not loaded, there is no kernel module 'nvidia' in kernel {os.uname().release}" in said
    )


OPTIONS = "/etc/nvidia/current/nvidia-options.conf"


def removed(machine: DriverMachine, before: set[str]) -> tuple[list[str], list[str]]:
    """What a removal left of the driver and should not have, and what it took that was there before."""
    machine.sh(f"echo '# of the site' >> {OPTIONS}")
    asked = {"nvidia_driver_state": "absent", "nvidia_driver_version": OLD}
    ended = machine.role("main", **asked)
    assert ended.status == 0, ended
    assert machine.half_done() == ""
    assert machine.held() == set()
    again = machine.role("main", **asked)
    assert (again.status, again.recap()[machine.name]["changed"]) == (0, 0), again
    assert machine.sh(f"tail -n 1 {OPTIONS}") == "# of the site"
    gone = {line.split()[1] for line in before} - {line.split()[1] for line in machine.snapshot()}
    # Configuration files, and libraries and tools for anybody, such as libtirpc and adduser, are a person's to take away.
    machine.ask("apt-get", "purge", "--yes", "-q", *sorted(machine.purgeable()))
    machine.ask("apt-get", "autoremove", "--purge", "--yes", "-q")
    if not any(line.startswith("package adduser ") for line in before):
        # Debian 13 begins without it, and apt never takes away what has its priority.
        machine.ask("apt-get", "purge", "--yes", "-q", "adduser")
    new = sorted(line for line in machine.snapshot() - before if not LEFT.match(line))
    return new, sorted(gone)


def test_a_removal_leaves_what_a_machine_has_that_never_had_a_driver(
    bookworm: DriverMachine, bare_bookworm: set[str]
) -> None:
    assert removed(bookworm, bare_bookworm) == ([], [])
    assert bookworm.ask("dkms", "status") == ""


def test_debian_13_has_the_proprietary_module_where_the_open_one_does_not_compile(
    trixie: DriverMachine, measured: Measured
) -> None:
    before = trixie.snapshot()
    refused = trixie.role(nvidia_driver_version=TRIXIE, nvidia_driver_module_flavour=OPEN)
    assert refused.status != 0, refused
    said = " ".join(refused.output.split())
    assert f"Module '{NAME[OPEN]}' of driver {TRIXIE} does not compile for kernel '{trixie.kernel()}'" in said
    assert trixie.half_done() == ""
    ended = trixie.role(nvidia_driver_version=TRIXIE, nvidia_driver_module_flavour=PROPRIETARY)
    has(trixie, TRIXIE, PROPRIETARY, ended)
    nothing_to_do(trixie, TRIXIE, PROPRIETARY)
    assert removed(trixie, before) == ([], [])
    measured("measured", f"{TRIXIE} for {trixie.kernel()}: proprietary {ended.seconds:.0f} s; {NEVER}")
