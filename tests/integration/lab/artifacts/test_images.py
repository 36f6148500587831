"""The images of the registry: their description, their tags, and the registry's folder."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from gpulab.artifacts import oci
from gpulab.artifacts.layers import Layer


@pytest.mark.skipif(shutil.which("zstd") is None, reason="needs zstd")
def test_the_registry_links_lead_to_blobs_with_their_digests(tmp_path: Path) -> None:
    with Layer(tmp_path / "layer.tar") as layer:
        layer.data("/hello", b"hello")
    packed = oci.pack(tmp_path / "layer.tar", tmp_path / "packed")
    assert oci.packed(tmp_path / "packed") == packed
    digest = oci.Registry(tmp_path / "registry").add(
        "some/where", "v1", [packed], oci.Settings({"A": "b"}, ["/hello"], "1:1", {"C": "d"})
    )
    base = tmp_path / "registry" / "docker" / "registry" / "v2"
    link = base / "repositories/some/where/_manifests/tags/v1/current/link"
    assert link.read_text() == digest

    def blob(name: str) -> bytes:
        value = name.removeprefix("sha256:")
        content = (base / "blobs/sha256" / value[:2] / value / "data").read_bytes()
        assert hashlib.sha256(content).hexdigest() == value
        return content

    manifest = json.loads(blob(digest))
    config = json.loads(blob(manifest["config"]["digest"]))
    assert config["config"]["Entrypoint"] == ["/hello"]
    assert "A=b" in config["config"]["Env"]
    assert config["config"]["Labels"] == {"C": "d"}
    assert config["rootfs"]["diff_ids"] == [packed.diff_id]
    for entry in [manifest["config"], *manifest["layers"]]:
        assert len(blob(entry["digest"])) == entry["size"]
        value = entry["digest"].removeprefix("sha256:")
        assert (base / f"repositories/some/where/_layers/sha256/{value}/link").exists()
