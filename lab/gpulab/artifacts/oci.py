"""Images in the form that the distribution registry keeps on disk.

Written directly, without a registry process: the layout (blobs by digest, links per repository) is the storage
format of distribution 2 and 3, and the images' manifests are OCI's. Sources: distribution's
'registry/storage/paths.go' and OCI image-spec 1.1, both read in 2026-11.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpulab.artifacts.store import digest_file
from gpusmith.errors import ToolError

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+zstd"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Packed:
    """A compressed layer: its file, and the digest of what is in it (OCI's diff id)."""

    blob: Path
    diff_id: str


@dataclass(frozen=True)
class Settings:
    """How a container of the image starts."""

    environment: Mapping[str, str] = field(default_factory=dict)
    entrypoint: Sequence[str] = ()
    user: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


def pack(tar: Path, folder: Path) -> Packed:
    """Compress a layer into a folder; zstd, which nodes unpack several times faster than gzip."""
    folder.mkdir(parents=True, exist_ok=True)
    blob = folder / "layer.tar.zst"
    done = subprocess.run(
        ["zstd", "-q", "-f", "-3", "-T0", "-o", str(blob), str(tar)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ToolError(f"The layer '{tar}' could not be compressed: {done.stderr.strip()}.")
    packed = Packed(blob, f"sha256:{digest_file(tar)}")
    (folder / "diff_id").write_text(packed.diff_id)
    return packed


def packed(folder: Path) -> Packed:
    """A layer that `pack` left."""
    return Packed(folder / "layer.tar.zst", (folder / "diff_id").read_text())


class Registry:
    """A registry's storage folder, filled with images and then served read-only."""

    def __init__(self, root: Path) -> None:
        self._base = root / "docker" / "registry" / "v2"

    def add(self, name: str, tag: str, layers: Iterable[Packed], settings: Settings) -> str:
        """Put an image in.

        Args:
            name: repository, without the registry's address.
            tag: its tag.
            layers: from the bottom up.
            settings: of its containers.

        Returns:
            The manifest's digest.
        """
        stack = list(layers)
        config: dict[str, Any] = {
            "Env": [f"PATH={PATH}", *(f"{key}={value}" for key, value in settings.environment.items())]
        }
        if settings.entrypoint:
            config["Entrypoint"] = list(settings.entrypoint)
        if settings.user:
            config["User"] = settings.user
        if settings.labels:
            config["Labels"] = dict(settings.labels)
        described = self._bytes(
            name,
            CONFIG,
            {
                "architecture": "amd64",
                "os": "linux",
                "config": config,
                "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in stack]},
            },
        )
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": described,
            "layers": [self._layer(name, layer) for layer in stack],
        }
        content = json.dumps(manifest, sort_keys=True).encode()
        digest = self._blob(content)
        repository = self._base / "repositories" / name / "_manifests"
        for folder in (
            repository / "revisions" / "sha256" / digest,
            repository / "tags" / tag / "current",
            repository / "tags" / tag / "index" / "sha256" / digest,
        ):
            _link(folder, digest)
        return f"sha256:{digest}"

    def _bytes(self, name: str, media_type: str, document: Mapping[str, Any]) -> dict[str, Any]:
        content = json.dumps(document, sort_keys=True).encode()
        digest = self._blob(content)
        _link(self._base / "repositories" / name / "_layers" / "sha256" / digest, digest)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    def _layer(self, name: str, layer: Packed) -> dict[str, Any]:
        digest = digest_file(layer.blob)
        target = self._place(digest)
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(layer.blob, target)  # the same bytes once on disk
            except OSError:
                shutil.copyfile(layer.blob, target)
        _link(self._base / "repositories" / name / "_layers" / "sha256" / digest, digest)
        return {"mediaType": LAYER, "digest": f"sha256:{digest}", "size": layer.blob.stat().st_size}

    def _place(self, digest: str) -> Path:
        return self._base / "blobs" / "sha256" / digest[:2] / digest / "data"

    def _blob(self, content: bytes) -> str:
        digest = hashlib.sha256(content).hexdigest()
        target = self._place(digest)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        return digest


def _link(folder: Path, digest: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "link").write_text(f"sha256:{digest}")
