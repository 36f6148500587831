"""The releases that a lab has a choice of, and what each of them changes among the artifacts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from gpulab.artifacts import debs, images, repos, rpms
from gpulab.artifacts.builder import Builder
from gpulab.artifacts.components import COMPONENTS, component, versions
from gpulab.artifacts.store import Store
from gpulab.releases import CONTAINERD, KUBERNETES, TITLES, USUAL, Release, Releases, known
from gpulab.systems import system

from gpusmith.data import compatibility
from gpusmith.errors import InputError
from gpusmith.paths import repo_root

ALL = [each for of in TITLES for each in known(of).values()]
OTHERS = [each for each in ALL if each.name != getattr(USUAL, each.of)]
EACH = pytest.mark.parametrize("release", ALL, ids=str)
ANOTHER = pytest.mark.parametrize("release", OTHERS, ids=str)
MACHINES = [system("debian-12"), system("rocky-9"), system("rocky-10")]


def lab(release: Release) -> Releases:
    """One with this release, and the usual ones of the rest."""
    return Releases(**{release.of: release.name})


@pytest.fixture
def signed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = repos.SigningKey(tmp_path / "public.asc", tmp_path / "secret.asc")
    key.public.write_text("key")
    monkeypatch.setattr(repos, "signing_key", lambda _: key)


@EACH
def test_each_is_compiled_from_a_release_of_its_own(release: Release) -> None:
    part, usual = component(release.component), component(release.of)
    assert part.version.startswith(f"v{release.name}.")
    assert set(part.programs) == set(usual.programs)
    number = part.version.removeprefix("v")
    assert number in {value.removeprefix("v") for value in part.link_variables().values()}


def test_they_are_those_that_the_project_knows_the_kubelet_and_the_runtime_of() -> None:
    data = repo_root() / "data"
    assert list(known(KUBERNETES)) == yaml.safe_load((data / "kubelet.yml").read_text())["kubernetes"]
    for name in known(KUBERNETES):
        Releases(kubernetes=name).must_fit()


def test_the_oldest_kubernetes_fits_each_containerd() -> None:
    for name in known(CONTAINERD):
        Releases("1.34", name).must_fit()
        patches = {row.rpartition(".")[0]: row for row in compatibility.load().containerd["1.34"]}
        number = versions(Releases("1.34", name))[CONTAINERD].removeprefix("v")
        assert [int(part) for part in number.split(".")] >= [int(part) for part in patches[name].split(".")]


def test_a_containerd_that_kubernetes_does_not_support_is_refused_with_what_it_does() -> None:
    with pytest.raises(InputError, match=r"Kubernetes 1\.36 does not support containerd 1\.7") as raised:
        Releases(containerd="1.7").must_fit()
    assert raised.value.hint.startswith("Of the lab's releases it supports 2.3;")


@pytest.mark.parametrize("of", TITLES)
def test_the_usual_one_is_among_the_parts_of_every_lab(of: str) -> None:
    assert USUAL.of(of).component == of
    assert component(of) in COMPONENTS
    assert (USUAL.others, USUAL.root(of)) == ((), "")
    assert versions() == {part.name: part.version for part in COMPONENTS}


def test_an_unknown_one_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"Kubernetes '1\.33'.*1\.34, 1\.35, 1\.36"):
        Releases(kubernetes="1.33").of(KUBERNETES)
    with pytest.raises(InputError, match=r"containerd '1\.6'.*1\.7, 2\.0, 2\.3"):
        Releases(containerd="1.6").of(CONTAINERD)


PACKAGE = {KUBERNETES: ("kubelet", "1.1"), CONTAINERD: ("containerd.io", "1")}


@EACH
def test_packages_and_images_are_of_that_release_and_the_rest_is_the_same(release: Release) -> None:
    chosen = lab(release)
    version = versions(chosen)[release.of]
    name, revision = PACKAGE[release.of]
    found = {
        each.version
        for each in debs.load(chosen=chosen)
        if each.name == name and each.files and "999" not in each.version
    }
    assert found == {f"{version[1:]}-{revision}"}
    rows = [each.entry for each in rpms.load("el9", chosen=chosen) if each.entry["name"] == name]
    assert version[1:] in {row["version"] for row in rows}
    tags = {image.name: image.tag for image in images.load(chosen)}
    usual = {image.name: image.tag for image in images.load()}
    if release.of == KUBERNETES:
        assert tags["registry.k8s.io/kube-proxy"] == version
    different = {image for image, tag in tags.items() if tag != usual[image]}
    assert all(re.match(r"registry\.k8s\.io/(kube-|etcd|coredns|pause)", image) for image in different)
    assert bool(different) == (release.of == KUBERNETES and release in OTHERS)


@ANOTHER
@pytest.mark.usefixtures("signed")
def test_another_one_leaves_what_all_labs_share_as_it_is(release: Release, tmp_path: Path) -> None:
    store = Store(tmp_path)
    usual, other = Builder(store).result(MACHINES), Builder(store, lab(release)).result(MACHINES)
    assert (other.apt_root, other.images) == (usual.apt_root, usual.images)
    own = release.component
    assert {key: path for key, path in other.package_roots.items() if key != own} == usual.package_roots
    assert other.package_roots[own].parent == tmp_path / own
    # Of another name, so that the registry of a lab that is up is never what there are too many of.
    same_registry = other.registry_root.parent == usual.registry_root.parent
    assert same_registry == (release.of == CONTAINERD)
    different = {name for name, version in other.versions.items() if version != usual.versions[name]}
    assert release.of in different
    assert not different & {"cni-plugins", "workload", *({*TITLES} - {release.of})}


@pytest.mark.usefixtures("signed")
def test_two_others_are_side_by_side(tmp_path: Path) -> None:
    chosen = Releases("1.34", "1.7")
    roots = Builder(Store(tmp_path), chosen).result(MACHINES).package_roots
    assert {"kubernetes-1.34", "containerd-1.7"} <= set(roots)
    assert str(Releases("1.34", "1.7").of(CONTAINERD)) == "containerd 1.7"


@ANOTHER
@pytest.mark.usefixtures("signed")
def test_rpms_are_made_for_machines_that_rpm_manages_alone(release: Release, tmp_path: Path) -> None:
    builder = Builder(Store(tmp_path), lab(release))
    each_alone = [builder.result([machine]).package_roots[release.component] for machine in MACHINES]
    # A release of an rpm says which distribution it is for.
    assert len(set(each_alone)) == len(MACHINES)


@ANOTHER
def test_another_one_is_compiled_beside_the_usual_one(release: Release, tmp_path: Path) -> None:
    assert release.component in Builder(Store(tmp_path), lab(release)).names()
    assert release.component not in Builder(Store(tmp_path)).names()
