"""The lab's packages of newer kernels: names, what brings what, and that DKMS hears of a kernel that comes or goes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from gpulab.artifacts import rpms
from gpulab.artifacts.rpms import Rpm
from gpulab.simgpu import el, kernels, source_dir, ubuntu
from gpulab.simgpu.packages import COPIED, Deb, Driver, package, placeholders, table

from gpusmith.expect import kernels as judge
from tests.unit.families.systems import value

FAMILIES = {"debian": "Debian 12", "ubuntu": "Ubuntu 24"}
INSTALL_ONLY = {"kernel": "kernel", "kernel-core": "kernel", "kernel-devel": "kernel", "kernel-modules": "kernel-module",
                "kernel-modules-core": "kernel-module"}  # fmt: skip
"""What dnf keeps in several releases, by kernel.spec."""


def debs(family: str) -> dict[tuple[str, str], tuple[str, Deb]]:
    """Repository and package by name and version."""
    return {(deb.name, deb.version): (repository, deb) for repository, deb in kernels.debs(family)}


def of_release(kernel: kernels.Kernel, tag: str = "el9") -> dict[str, Rpm]:
    return {
        rpm.name: rpm
        for _, rpm in el.kernel_packages(tag)
        if f"{rpm.version}-{rpm.release}" == kernel.version
    }


def needed(deb: Deb) -> list[str]:
    return [item.strip() for item in deb.fields.get("Depends", "").split(",") if item.strip()]


# --- names and relations -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("running", ["6.1.0-140-amd64", "6.18.44-fc-v657", "5.14.0-999.el9.x86_64", "6.99.1"])
def test_every_release_is_newer_than_the_kernel_that_runs(
    running: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = os.uname_result(("Linux", "host", running, "1", "x86_64"))
    monkeypatch.setattr(os, "uname", lambda: host)
    for family, tag in (("debian", ""), ("ubuntu", ""), ("el", "el9"), ("el", "el10")):
        releases = [kernel.release for kernel in kernels.known(family, tag)]
        for older, newer in zip([running, *releases], releases, strict=False):
            assert judge.newest([newer, older]) == newer


@pytest.mark.parametrize(("family", "system"), FAMILIES.items())
def test_the_names_are_those_that_the_role_asks_for(family: str, system: str) -> None:
    names = value("nvidia_driver", system, "__nvidia_driver_kernel")
    there = {name for name, _ in debs(family)}
    for kernel in kernels.known(family):
        assert {f"linux-image-{kernel.release}", *judge.header_packages(names, kernel.release)} <= there
        flavour = re.match(names["flavour"], kernel.release)
        assert flavour is not None
        metas = {str(name).format(flavour=flavour[1]) for name in names["next"][0].values()}
        assert metas <= there


def test_the_names_of_el_are_those_that_the_role_asks_for() -> None:
    names = value("nvidia_driver", "Rocky 9", "__nvidia_driver_kernel")
    for kernel in kernels.known("el", "el9"):
        assert re.match(names["flavour"], kernel.release)
        builds = {rpm.filename.removesuffix(".rpm") for rpm in of_release(kernel).values()}
        assert set(judge.header_packages(names, kernel.release)) <= builds


@pytest.mark.parametrize("family", FAMILIES)
def test_everything_that_a_package_needs_is_there_in_its_version(family: str) -> None:
    there = debs(family)
    for (name, _), (repository, deb) in there.items():
        for item in needed(deb):
            needs, _, version = item.partition(" (= ")
            if needs == "kmod":
                continue
            found = [
                row for key, row in there.items() if key[0] == needs and version.rstrip(")") in ("", key[1])
            ]
            assert [row[0] for row in found] == [repository], f"{name} needs {item}"


def test_a_kernel_comes_without_its_headers_unless_these_are_followed() -> None:
    """As on Ubuntu: the image's package says nothing of headers, linux-generic brings both."""
    old, new = kernels.known("ubuntu")
    there = debs("ubuntu")
    assert (old.repository, new.repository) == ("ubuntu", "ubuntu-security")
    for kernel in (old, new):
        deb = {
            name: there[name, kernel.version][1]
            for name in ("linux-generic", "linux-image-generic", "linux-headers-generic")
        }
        exact = f"(= {kernel.version})"
        assert needed(deb["linux-generic"]) == [
            f"linux-image-generic {exact}",
            f"linux-headers-generic {exact}",
        ]
        assert needed(deb["linux-image-generic"]) == [
            f"linux-{part}-{kernel.release}" for part in ("image", "modules-extra")
        ]
        assert needed(deb["linux-headers-generic"]) == [f"linux-headers-{kernel.release}"]
        image = there[f"linux-image-{kernel.release}", kernel.version][1]
        assert f"/boot/vmlinuz-{kernel.release}" in image.texts
        assert not any("headers" in item for item in needed(image))


def test_kernels_of_el_stand_side_by_side_and_the_package_that_follows_them_does_not() -> None:
    old, new = kernels.known("el", "el9")
    for kernel in (old, new):
        there = of_release(kernel)
        provided = {name: rpm.relations.get("provides", []) for name, rpm in there.items()}
        only = {
            name: text
            for name, texts in provided.items()
            for text in texts
            if text.startswith("installonlypkg")
        }
        assert only == {name: f"installonlypkg({kind})" for name, kind in INSTALL_ONLY.items()}
        assert set(there) - set(INSTALL_ONLY) == {"kernel-devel-matched"}
        assert there["kernel-devel-matched"].relations["requires"] == [
            f"kernel-devel = {kernel.version}", f"kernel-core = {kernel.version}"
        ]  # fmt: skip
        every = {text for texts in provided.values() for text in texts}
        by_release = {
            text for rpm in there.values() for text in rpm.relations.get("requires", ()) if "uname-r" in text
        }
        assert by_release <= every
        assert all(text.endswith(f" = {kernel.release}") for text in by_release)
        # Without kernel-devel it leads nowhere, and modules cannot be built.
        target = there["kernel-core"].links[f"/lib/modules/{kernel.release}/build"]
        assert any(path.startswith(f"{target}/include/") for path in there["kernel-devel"].texts)
    assert set(of_release(old)) == set(of_release(new))


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


@pytest.mark.parametrize(("name", "places"), [
    ("debian", ["/etc/kernel/postinst.d/dkms", "/etc/kernel/header_postinst.d/dkms", "/etc/kernel/prerm.d/dkms"]),
    ("ubuntu", ["/etc/kernel/postinst.d/dkms", "/etc/kernel/header_postinst.d/dkms", "/etc/kernel/prerm.d/dkms"]),
    ("el", ["/usr/lib/kernel/install.d/40-dkms.install"]),
])  # fmt: skip
def test_dkms_brings_its_hooks_where_kernels_look_for_them(
    name: str, places: list[str], tmp_path: Path
) -> None:
    row = next(row for row in table(name)["singles"] if row["name"] == "dkms")
    hooks = {path for path in row["files"] if "kernel" in path}
    assert hooks == set(places)
    assert row["modes"] == dict.fromkeys(places, "755"), (
        "run-parts and kernel-install start what is executable"
    )
    if name != "el":
        deb = package(row, placeholders("0", "1"), Driver(tmp_path, "0", 13000))
        assert set(deb.conffiles) == hooks


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
