"""What is installed elsewhere: the wheel and the collection have what they need, and nothing of lab and tests."""

from __future__ import annotations

import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from gpusmith.paths import repo_root

MOST_BYTES = 1_000_000
IN_WHEEL = "ansible_collections/gpusmith/gpu/"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([str(repo_root() / "scripts/dist"), str(folder)], check=True, timeout=120)
    return folder


def test_the_collection_is_small_and_has_no_special_files(built: Path) -> None:
    (path,) = built.glob("gpusmith-gpu-*.tar.gz")
    assert path.stat().st_size < MOST_BYTES
    with tarfile.open(path) as archive:
        members = archive.getmembers()
    assert [row.name for row in members if not (row.isreg() or row.isdir())] == []
    tops = {row.name.split("/")[0] for row in members}
    assert tops == {
        "CHANGELOG.md", "FILES.json", "LICENSE", "MANIFEST.json", "README.md", "data", "examples", "meta", "playbooks", "plugins",
        "roles", "validation",
    }  # fmt: skip


def test_the_wheel_has_library_suite_and_collection(built: Path) -> None:
    (path,) = built.glob("gpusmith-*.whl")
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        (metadata,) = (archive.read(name).decode() for name in names if name.endswith(".dist-info/METADATA"))
        (commands,) = (archive.read(name).decode() for name in names if name.endswith("entry_points.txt"))
    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"gpusmith", "ansible_collections"}
    assert {
        "gpusmith/py.typed", f"{IN_WHEEL}data/gpus.yml", f"{IN_WHEEL}roles/containerd/meta/argument_specs.yml",
        f"{IN_WHEEL}validation/conftest.py", f"{IN_WHEEL}plugins/module_utils/packages/apt.py", f"{IN_WHEEL}playbooks/guard.yml",
    } <= set(names)  # fmt: skip
    assert not [name for name in names if "__pycache__" in name or "/tests/" in name]
    assert "gpusmith = gpusmith.cli:main" in commands
    needs = [
        line
        for line in metadata.splitlines()
        if line.startswith("Requires-Dist: ansible") and "extra ==" not in line
    ]
    assert [line.split(" ")[1].split(">")[0].split("<")[0] for line in needs] == ["ansible-core"]
