"""Packages for machines that rpm manages, and their repositories."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpulab import systems
from gpulab.artifacts import rpms
from gpulab.artifacts.components import COMPONENTS
from gpulab.artifacts.rpms import Rpm
from gpulab.artifacts.sources import PACKAGES
from gpulab.simgpu import el
from gpulab.simgpu.packages import table

from gpusmith.errors import ToolError

PROGRAMS = {part.name: part.programs for part in COMPONENTS}
EVERY = rpms.load("el9")


@pytest.mark.parametrize("described", EVERY, ids=lambda each: f"{each.entry['name']}-{each.entry['version']}")
def test_every_file_has_a_source(described: rpms.Described) -> None:
    assert described.repository in systems.SIGNED
    for path, source in described.sources.items():
        assert path.startswith("/")
        kind, _, rest = source.partition(":")
        assert kind in {"go", "file", "upstream"}
        if kind == "go":
            component, _, program = rest.partition("/")
            assert program == "*" or program in PROGRAMS[component]
        if kind == "file":
            assert (PACKAGES / "files" / rest).is_file()


def test_versions_are_those_of_the_debian_packages() -> None:
    found = {(each.entry["name"], each.entry["version"], each.entry["release"]) for each in EVERY}
    assert ("kubeadm", "1.36.3", "150500.1.1") in found
    assert ("containerd.io", "2.3.7", "1.el9") in found
    assert ("nvidia-container-toolkit", "1.20.1", "1") in found


def test_an_unknown_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text(
        "repository: r\npackages: [{name: a, version: '1', release: '1', summary: s, depends: [b]}]\n"
    )
    with pytest.raises(ToolError, match="depends"):
        rpms.load("el9", tmp_path)


def test_a_scriptlet_is_not_expanded_by_rpmbuild(tmp_path: Path) -> None:
    text = rpms.spec(Rpm("a", "1", "1", "s", scripts={"post": "date +%s\n"}), tmp_path)
    assert "date +%%s" in text


def test_a_folder_of_its_version_goes_with_a_package(tmp_path: Path) -> None:
    source = "/usr/src/nvidia-580.178.04"
    made = Rpm("a", "580.178.04", "1", "s", texts={f"{source}/dkms.conf": "", "/usr/bin/a": ""})
    lines = rpms.spec(made, tmp_path).splitlines()
    assert [line for line in lines if line.startswith("%dir")] == [f'%dir "{source}"']


def test_units_are_enabled_by_presets_only() -> None:
    scripts = rpms.with_units({}, ["a.service"])
    assert "preset a.service" in scripts["post"]
    assert " enable" not in scripts["post"]
    assert "restart" not in scripts["postun"]
    assert "try-restart a.service" in rpms.with_units({}, ["a.service"], ["a.service"])["postun"]


def test_the_driver_requires_what_its_vendors_packages_require() -> None:
    driver = {rpm.name: rpm for rpm in el.driver_packages(table("el"), "580.178.04", "el9", None)}
    assert driver["nvidia-driver-cuda"].nevra == "nvidia-driver-cuda-3:580.178.04-1.el9.x86_64"
    assert driver["nvidia-fabricmanager"].nevra == "nvidia-fabricmanager-0:580.178.04-1.x86_64"
    # Without a version: an exact install of an older driver gets the newest one's, unless that is locked before.
    assert "nvidia-modprobe" in driver["nvidia-kmod-common"].relations["requires"]
    kinds = driver["kmod-nvidia-open-dkms"], driver["kmod-nvidia-latest-dkms"]
    assert all(kind.relations["provides"] == ["nvidia-kmod = 3:580.178.04"] for kind in kinds)
    assert "kmod-nvidia-latest-dkms" in kinds[0].relations["conflicts"]


def test_only_release_9_has_module_streams() -> None:
    assert "580-open" in el.modules("el9")
    assert el.modules("el10") == ""


@pytest.mark.parametrize(
    ("debian", "rpm"), [("a", "a"), ("cuda-nvcc-12-8 (>= 12.8.1)", "cuda-nvcc-12-8 >= 12.8.1")]
)
def test_relations_of_toolkits_are_translated(debian: str, rpm: str) -> None:
    assert el.relation(debian) == rpm
