"""The lab's packages of newer kernels: names, what brings what, and that DKMS hears of a kernel that comes or goes."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from gpulab.artifacts.rpms import Rpm
from gpulab.simgpu import el, kernels
from gpulab.simgpu.packages import Deb, Driver, package, placeholders, table

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
