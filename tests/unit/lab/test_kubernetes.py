"""The minor releases of Kubernetes that a lab can have, and what each of them changes among the artifacts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from gpulab import kubernetes
from gpulab.artifacts import debs, images, repos, rpms
from gpulab.artifacts.builder import Builder
from gpulab.artifacts.components import COMPONENTS, component, versions
from gpulab.artifacts.store import Store
from gpulab.systems import system

from gpusmith.errors import InputError
from gpusmith.paths import repo_root

MINORS = pytest.mark.parametrize("name", kubernetes.known())
OTHERS = [name for name in kubernetes.known() if name != kubernetes.DEFAULT]


@pytest.fixture
def signed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = repos.SigningKey(tmp_path / "public.asc", tmp_path / "secret.asc")
    key.public.write_text("key")
    monkeypatch.setattr(repos, "signing_key", lambda _: key)


@MINORS
def test_each_is_compiled_from_a_release_of_its_own_minor(name: str) -> None:
    part = component(kubernetes.minor(name).component)
    assert part.version.startswith(f"v{name}.")
    assert part.programs == component("kubernetes").programs
    assert part.link_variables()["k8s.io/component-base/version.gitVersion"] == part.version


def test_they_are_those_that_the_project_knows_the_kubelet_and_the_runtime_of() -> None:
    data = repo_root() / "data"
    assert list(kubernetes.known()) == yaml.safe_load((data / "kubelet.yml").read_text())["kubernetes"]
    rows = yaml.safe_load((data / "compatibility.yml").read_text())["kubernetes_containerd"]["rows"]
    runtime = component("containerd").version.removeprefix("v").rpartition(".")[0]
    allowed = {row["kubernetes"]: [each.rpartition(".")[0] for each in row["containerd"]] for row in rows}
    assert {name for name in kubernetes.known() if runtime in allowed[name]} == set(kubernetes.known())


def test_the_usual_one_is_among_the_parts_of_every_lab() -> None:
    usual = kubernetes.minor(kubernetes.DEFAULT)
    assert component(usual.component) in COMPONENTS
    assert not usual.root
    assert versions() == {part.name: part.version for part in COMPONENTS}


def test_an_unknown_one_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"'1\.33'.*1\.34, 1\.35, 1\.36"):
        kubernetes.minor("1.33")


@MINORS
def test_packages_and_images_are_of_that_release_and_the_rest_is_the_same(name: str) -> None:
    version = versions(name)["kubernetes"]
    numbers = {
        each.version for each in debs.load(minor=name) if each.name == "kubelet" and "999" not in each.version
    }
    assert numbers == {f"{version[1:]}-1.1"}
    rows = [each.entry for each in rpms.load("", minor=name) if each.entry["name"] == "kubelet"]
    assert version[1:] in {row["version"] for row in rows}
    tags = {image.name: image.tag for image in images.load(name)}
    usual = {image.name: image.tag for image in images.load()}
    assert tags["registry.k8s.io/kube-proxy"] == version
    different = {image for image, tag in tags.items() if tag != usual[image]}
    assert all(re.match(r"registry\.k8s\.io/(kube-|etcd|coredns|pause)", image) for image in different)


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.usefixtures("signed")
def test_another_one_leaves_what_all_labs_share_as_it_is(name: str, tmp_path: Path) -> None:
    store = Store(tmp_path)
    machines = [system("debian-12"), system("rocky-9")]
    usual, other = Builder(store).result(machines), Builder(store, name).result(machines)
    assert (other.apt_root, other.images) == (usual.apt_root, usual.images)
    own = f"kubernetes-{name}"
    assert {key: path for key, path in other.package_roots.items() if key != own} == usual.package_roots
    assert other.package_roots[own].parent == tmp_path / own
    # Of another name, so that the registry of a lab that is up is never what there are too many of.
    assert other.registry_root.parent != usual.registry_root.parent
    assert other.versions["kubernetes"].startswith(f"{name}.")
    same = ("containerd", "cni-plugins", "workload")
    assert [other.versions[each] for each in same] == [usual.versions[each] for each in same]


@pytest.mark.usefixtures("signed")
def test_rpms_are_made_for_machines_that_rpm_manages_alone(tmp_path: Path) -> None:
    builder = Builder(Store(tmp_path), OTHERS[0])
    roots = [builder.result([system(each)]).package_roots for each in ("debian-12", "rocky-9")]
    assert len({root[f"kubernetes-{OTHERS[0]}"] for root in roots}) == 2


@pytest.mark.parametrize("name", OTHERS)
def test_another_one_is_compiled_beside_the_usual_one(name: str, tmp_path: Path) -> None:
    own = kubernetes.minor(name).component
    assert own in Builder(Store(tmp_path), name).names()
    assert own not in Builder(Store(tmp_path)).names()
