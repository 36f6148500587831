"""Descriptions of Debian packages, the archives made from them, and the repositories that hold those."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpulab.artifacts import debs
from gpulab.artifacts.components import COMPONENTS
from gpulab.artifacts.sources import PACKAGES

from gpusmith.errors import ToolError

PROGRAMS = {part.name: part.programs for part in COMPONENTS}
EVERY = debs.load()
LOADED = {package.name: package for package in reversed(EVERY)}
EACH = pytest.mark.parametrize("package", EVERY, ids=lambda package: package.filename)


@EACH
def test_every_file_has_a_source(package: debs.Package) -> None:
    for path, source in package.files.items():
        assert path.startswith("/")
        kind, _, rest = source.partition(":")
        assert kind in {"go", "file", "upstream"}
        if kind == "go":
            component, _, program = rest.partition("/")
            assert program == "*" or program in PROGRAMS[component]
        if kind == "file":
            assert (PACKAGES / "files" / rest).is_file()


@EACH
def test_enabled_units_are_in_the_package(package: debs.Package) -> None:
    for unit in package.units:
        assert any(path.endswith(f"/systemd/system/{unit}") for path in package.files)


@EACH
def test_the_control_file_is_well_formed(package: debs.Package) -> None:
    text = debs.control(package, 1)
    assert "{" not in text
    fields = [line for line in text.splitlines() if not line.startswith(" ")]
    assert all(": " in line for line in fields)
    assert len({line.partition(":")[0] for line in fields}) == len(fields)


def test_the_versions_that_inventories_name() -> None:
    assert LOADED["kubeadm"].version == "1.36.3-1.1"
    assert LOADED["kubernetes-cni"].version == "1.9.1-1.1"
    assert LOADED["containerd.io"].version == "2.3.7-1"
    assert LOADED["nvidia-container-toolkit"].version == "1.20.1-1"


def test_containerd_excludes_debians_runc() -> None:
    relations = LOADED["containerd.io"].relations
    assert all("runc" in relations[name] for name in ("provides", "conflicts", "replaces"))


def test_the_toolkit_and_its_base_have_one_version() -> None:
    depends = LOADED["nvidia-container-toolkit"].relations["depends"]
    assert f"nvidia-container-toolkit-base (= {LOADED['nvidia-container-toolkit-base'].version})" in depends


def test_an_unknown_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text(
        "repository: r\npackages: [{name: a, version: '1', description: d, files: {}, dependz: [b]}]\n"
    )
    with pytest.raises(ToolError, match="dependz"):
        debs.load(tmp_path)


def test_the_key_follows_the_programs() -> None:
    package = LOADED["kubelet"]
    assert debs.inputs(package, lambda _: "one") != debs.inputs(package, lambda _: "two")


def test_the_toolkit_pulls_in_the_library_of_exactly_its_version() -> None:
    depends = LOADED["nvidia-container-toolkit"].relations["depends"]
    assert f"libnvidia-container-tools (= {LOADED['libnvidia-container-tools'].version})" in depends


@pytest.mark.parametrize("repository", ["containerd", "nvidia-container-toolkit", "kubernetes"])
def test_each_repository_has_a_newer_release_that_holds_nothing(repository: str) -> None:
    newer = [each for each in EVERY if each.repository == repository and ".999." in each.version]
    wanted = {"containerd.io", "nvidia-container-toolkit", "libnvidia-container1", "kubelet"}
    assert wanted & {each.name for each in newer}
    assert not any(each.files for each in newer)
