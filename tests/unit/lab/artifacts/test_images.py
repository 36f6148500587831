"""The images of the registry: their description, their tags, and the registry's folder."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from gpulab.artifacts import debian, images
from gpulab.artifacts.components import COMPONENTS
from gpulab.artifacts.layers import Layer

LOADED = {image.name: image for image in images.load()}
PROGRAMS = {part.name: part.programs for part in COMPONENTS}
EACH = pytest.mark.parametrize("image", LOADED.values(), ids=lambda image: image.name)


def parts(key: str = "one") -> images.Parts:
    def never(*_: object) -> Path:
        raise AssertionError("reading tags must not build")

    return images.Parts(lambda _: key, never, never, never)


@EACH
def test_every_program_is_compiled_and_every_base_described(image: images.Image) -> None:
    for items in image.programs.values():
        for item in items:
            component, _, program = item.partition("/")
            assert program == "*" or program in PROGRAMS[component]
    if image.base:
        assert debian.load(image.base).packages


def test_upstream_names_and_tags() -> None:
    tags = images.content_tags(list(LOADED.values()), parts())
    assert tags["registry.k8s.io/kube-apiserver"] == "v1.36.3"
    assert tags["nvcr.io/nvidia/k8s-device-plugin"] == "v0.19.0"
    assert tags["registry.k8s.io/nfd/node-feature-discovery"] == "v0.18.3"
    assert tags["registry.k8s.io/kube-state-metrics/kube-state-metrics"] == "v2.20.0"
    assert tags["quay.io/prometheus/alertmanager"] == "v0.35.0"
    assert tags["quay.io/prometheus/prometheus"] == "v3.16.0"
    assert tags["nvcr.io/nvidia/k8s/dcgm-exporter"] == "4.6.0-4.8.3-distroless"


def test_what_stands_in_for_an_image_of_others_says_so() -> None:
    labels = LOADED["nvcr.io/nvidia/k8s/dcgm-exporter"].settings().labels
    assert "Stand-in" in labels["org.opencontainers.image.title"]


def test_tags_by_content_change_with_it_and_workloads_share_theirs() -> None:
    one, two = (images.content_tags(list(LOADED.values()), parts(key)) for key in ("one", "two"))
    assert one["gpulab/pod-network"] != two["gpulab/pod-network"]
    assert one["gpusmith/pytorch"] == one["gpusmith/tensorflow"] != "content"


def test_a_layer_depends_on_content_alone(tmp_path: Path) -> None:
    source = tmp_path / "program"
    source.write_text("x")
    source.chmod(0o755)
    for name in ("a.tar", "b.tar"):
        with Layer(tmp_path / name, merged_usr=True) as layer:
            layer.file("/bin/program", source)
            layer.link("/usr/bin/alias", "program")
            layer.folder("/tmp", 0o1777)
        source.touch()
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()
    with tarfile.open(tmp_path / "a.tar") as tar:
        assert tar.getnames() == ["usr", "usr/bin", "usr/bin/program", "usr/bin/alias", "tmp"]
        assert tar.getmember("usr/bin/program").mode == 0o755
        assert {entry.uid for entry in tar} == {0}
