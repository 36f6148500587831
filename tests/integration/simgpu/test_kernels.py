"""The lab's packages of newer kernels: names, what brings what, and that DKMS hears of a kernel that comes or goes."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from gpulab.artifacts import rpms
from gpulab.simgpu import kernels, source_dir, ubuntu
from gpulab.simgpu.packages import COPIED, Driver, package, placeholders, table

from tests.unit.simgpu.test_kernels import FAMILIES, debs, of_release


def test_modules_that_come_built_are_there_for_each_kernel(tmp_path: Path) -> None:
    rows = table("ubuntu")
    template = next(row for row in rows["packages"] if row.get("prebuilt") == "open")
    built = Driver(tmp_path, "580.173.02", 13000)
    for kernel in kernels.known("ubuntu"):
        values = placeholders(built.version, "1", suffix="-580-server", kernel=kernel.release)
        deb = ubuntu.prebuilt(package(template, values, built), built, "open", kernel)
        assert (deb.name, deb.version) == (
            f"linux-modules-nvidia-580-server-open-{kernel.release}",
            kernel.version,
        )
        path = f"/lib/modules/{kernel.release}/kernel/nvidia-580-server-open/nvidia.ko"
        assert f"vermagic={kernel.release} ".encode() in deb.files[path].read_bytes()


@pytest.mark.skipif(shutil.which("rpmbuild") is None, reason="needs rpm")
def test_rpm_takes_them_as_they_are(tmp_path: Path) -> None:
    old, _ = kernels.known("el", "el9")
    packages = list(of_release(old).values())
    rpms.write(packages, tmp_path)

    def ask(name: str, *words: str) -> str:
        path = tmp_path / of_release(old)[name].filename
        command = ["rpm", "--dbpath", str(tmp_path / "db"), "-qp", "--nosignature", *words, str(path)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    assert "installonlypkg(kernel)\n" in ask("kernel-core", "--provides")
    assert f"kernel-uname-r = {old.release}\n" in ask("kernel-core", "--provides")
    scripts = ask("kernel-core", "--scripts")
    assert re.search(rf"posttrans scriptlet.*\n/bin/kernel-install add {old.release} ", scripts)
    assert re.search(rf"preuninstall scriptlet.*\n/bin/kernel-install remove {old.release} ", scripts)
    assert ask("kernel-devel-matched", "-l") == "(contains no files)\n"


# --- DKMS hears of them ------------------------------------------------------------------------------------------

PROGRAMS = ("dkms", "depmod", "run-parts", "dpkg-trigger")


class Machine:
    """A folder in the place of /, in which scripts find programs that note how they were called."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "bin").mkdir()
        self.calls = root / "calls"
        for name in PROGRAMS:
            path = root / "bin" / name
            path.write_text(f'#!/bin/sh\necho "{name} $*" >>{self.calls}\n')
            path.chmod(0o755)

    def run(self, script: str, *words: str) -> tuple[str, list[str]]:
        """What a script says, and what it calls."""
        self.calls.write_text("")
        for place in ("/lib/modules", "/etc/kernel", "/usr/lib/linux"):
            script = re.sub(rf"(?<![\w.]){place}", f"{self.root}{place}", script)
        done = subprocess.run(
            ["sh", "-ec", script, "script", *words],
            env={"PATH": f"{self.root}/bin:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout, self.calls.read_text().replace(str(self.root), "").splitlines()

    def hook(self, name: str, *words: str) -> tuple[str, list[str]]:
        """The same of one of the scripts of DKMS."""
        return self.run((source_dir() / "packages" / COPIED[name]).read_text(), *words)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_hook_builds_for_a_kernel_whose_headers_are_there(machine: Machine) -> None:
    said, calls = machine.hook("dkms-kernel-postinst", "6.8.0-80-generic", "/boot/vmlinuz-6.8.0-80-generic")
    assert "headers" in said
    assert calls == []
    (machine.root / "lib/modules/6.8.0-80-generic/build/include").mkdir(parents=True)
    assert machine.hook("dkms-kernel-postinst", "6.8.0-80-generic") == (
        "",
        ["dkms autoinstall --kernelver 6.8.0-80-generic"],
    )


def test_hooks_that_outlive_dkms_keep_no_kernel_from_being_installed(machine: Machine) -> None:
    (machine.root / "lib/modules/6.8.0-80-generic/build/include").mkdir(parents=True)
    (machine.root / "bin/dkms").unlink()
    for name in ("dkms-kernel-postinst", "dkms-kernel-prerm"):
        assert machine.hook(name, "6.8.0-80-generic") == ("", [])


def test_the_hooks_tell_dkms_of_kernels_that_come_and_go(machine: Machine) -> None:
    release = "5.14.0-570.el9.x86_64"
    assert machine.hook("dkms-kernel-install", "add", release, "/boot")[1] == [
        f"dkms kernel_postinst --kernelver {release}"
    ]
    assert machine.hook("dkms-kernel-install", "remove", release)[1] == [
        f"dkms kernel_prerm --kernelver {release}"
    ]
    assert machine.hook("dkms-kernel-prerm", release)[1] == [f"dkms kernel_prerm -k {release}"]


@pytest.mark.parametrize("family", FAMILIES)
def test_scripts_of_debs_run_the_hooks(family: str, machine: Machine) -> None:
    kernel = kernels.known(family)[-1]
    release, there = kernel.release, debs(family)
    image = there[f"linux-image-{release}", kernel.version][1].scripts
    headers = there[f"linux-headers-{release}", kernel.version][1].scripts
    run = "run-parts --report --exit-on-error"
    of_image = f"--arg={release} --arg=/boot/vmlinuz-{release}"
    assert not any(call.startswith("run-parts") for call in machine.run(image["postinst"], "configure")[1])
    for folder in ("postinst.d", "header_postinst.d", "prerm.d"):
        (machine.root / "etc/kernel" / folder).mkdir(parents=True)
    (call,) = machine.run(headers["postinst"], "configure")[1]
    assert call.startswith(f"{run} --arg={release}")
    assert call.endswith(" /etc/kernel/header_postinst.d")
    assert machine.run(image["prerm"], "remove")[1] == [f"{run} {of_image} /etc/kernel/prerm.d"]
    assert machine.run(image["prerm"], "upgrade")[1] == []
    depmod, *calls = machine.run(image["postinst"], "configure")[1]
    assert depmod == f"depmod {release}"
    if family == "ubuntu":
        # Not before everything is configured that came with it, such as its headers.
        assert calls == [f"dpkg-trigger --no-await linux-update-{release}"]
        assert image["triggers"] == f"interest linux-update-{release}\n"
        calls = machine.run(image["postinst"], "triggered", f"linux-update-{release}")[1]
        assert machine.run(image["postinst"], "triggered", f"linux-update-{release}")[1] == []
    assert calls == [f"{run} {of_image} /etc/kernel/postinst.d"]
