"""A system with apt in a temporary folder, and a signed repository of small packages for it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.apt import Apt
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.repositories import repository_of
from gpulab.artifacts import repos

PROGRAMS = ("apt-get", "dpkg-deb", "apt-ftparchive", "gpg", "ldconfig")
# What the repository has: name, version, further fields of the control file.
PACKAGES = [
    ("drv-cuda", "580.178.04-1", "Depends: drv-libs (= 580.178.04-1), drv-tool"),
    ("drv-cuda", "595.71.05-1", "Depends: drv-libs (= 595.71.05-1), drv-tool"),
    ("drv-libs", "580.178.04-1", ""),
    ("drv-libs", "595.71.05-1", ""),
    # Needed without a version, as nvidia-modprobe is: without a pin the newest one comes.
    ("drv-tool", "580.178.04-1", ""),
    ("drv-tool", "595.71.05-1", ""),
    # A name of the set's pattern with a version of its own.
    ("drv-container", "1.20.1-1", ""),
    # The name tells nothing, the source does, as of libnvcuvid1 and libnvoptix1.
    ("codec", "580.178.04-1", "Source: drv-source"),
    ("codec", "595.71.05-1", "Source: drv-source"),
    # As the container toolkit: everything wants everything else in its own version, the library at least in that.
    *(
        row
        for version in ("1.20.1-1", "1.21.0-1")
        for row in (
            ("kit", version, f"Depends: kit-base (= {version}), kit-tools (= {version})"),
            ("kit-base", version, ""),
            ("kit-tools", version, f"Depends: kit-library (>= {version})"),
            ("kit-library", version, ""),
        )
    ),
    # As Docker's containerd: it is Debian's, and the other way round it is not.
    ("runtime.io", "2.3.7-1", "Conflicts: runtime\nReplaces: runtime\nProvides: runtime"),
    ("runtime", "1.6.20-1", ""),
    ("engine", "20.10-1", "Depends: runtime (>= 1.4)"),
    ("other", "1.0-1", "Conflicts: drv-cuda"),
    ("epoch", "1:2.0-1", ""),
    ("daemon", "1.0-1", ""),
    ("fabric-580", "580.178.04-1", ""),
    ("fabric-595", "595.71.05-1", ""),
    ("broken", "1.0-1", "Depends: nowhere-to-be-found (>= 3)"),
]
# Both have one file, and no relation says that they cannot be there together.
FILES = {"fabric-580": "opt/nv-fabric", "fabric-595": "opt/nv-fabric"}
CONFIGURATION = {
    "daemon": ("etc/daemon/edited.conf", "etc/daemon/plain.conf", "etc/daemon/gone.conf"),
    "lib": ("etc/lib.conf",),
}


@dataclass(frozen=True)
class System:
    """What a test works with.

    Attributes:
        apt: the backend for the system in the temporary folder.
        root: that system.
        given: the repository as an inventory gives it.
        wrong_key: another repository's key.
    """

    apt: Any
    root: Path
    given: dict[str, Any]
    wrong_key: str

    @property
    def repository(self) -> Any:
        """The repository."""
        return repository_of(self.given, "test")

    def write(self, files: Any) -> None:
        """Put files of a backend where they belong."""
        for file in files:
            if file.text is not None:
                file.path.write_text(file.text)

    def configure(self) -> None:
        """The repository is configured, and its list read."""
        self.write(self.apt.repository_files("test", self.repository))
        self.apt.refresh("test")


def _deb(folder: Path, name: str, version: str, fields: str) -> Path:
    tree = folder / f".{name}_{version.replace(':', '')}"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "opt").mkdir()
    (tree / "opt" / name).write_text(version)
    if name in FILES:
        (tree / FILES[name]).write_text(version)
    for path in CONFIGURATION.get(name, ()):
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text("as it came\n")
        with (tree / "DEBIAN/conffiles").open("a") as listed:
            listed.write(f"/{path}\n")
    lines = [f"Package: {name}", f"Version: {version}", "Maintainer: nobody <a@b.invalid>"]
    found = re.search(r"Architecture: (\S+)", fields)
    if found is None:
        lines.append("Architecture: all")
    architecture = found[1] if found else "all"
    (tree / "DEBIAN/control").write_text(
        "\n".join([*lines, *filter(None, [fields]), "Description: a test", ""])
    )
    archive = folder / f"{name}_{version.replace(':', '%3a')}_{architecture}.deb"
    subprocess.run(
        ["dpkg-deb", "--build", "--root-owner-group", "-Znone", tree, archive],
        check=True,
        capture_output=True,
    )
    shutil.rmtree(tree)
    return archive


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A signed repository, made once, and a key that did not sign it."""
    return made(tmp_path_factory, PACKAGES)


def made(
    tmp_path_factory: pytest.TempPathFactory,
    rows: Iterable[tuple[str, str, str]],
    called: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A signed repository of packages by name, version and further fields, and a key that did not sign it.

    Args:
        tmp_path_factory: of pytest.
        rows: the packages.
        called: fields of its Release.
    """
    if any(shutil.which(program) is None for program in PROGRAMS):
        pytest.skip(f"needs {', '.join(PROGRAMS)}")
    folder = tmp_path_factory.mktemp("repository")
    for name, version, fields in rows:
        _deb(folder, name, version, fields)
    key = repos.signing_key(tmp_path_factory.mktemp("key"))
    repos.index(folder, "test", key, called)
    other = repos.signing_key(tmp_path_factory.mktemp("other-key"))
    return {
        "given": {
            "uris": [f"file:{folder}"],
            "suites": ["./"],
            "components": [],
            "key": key.public.read_text(),
        },
        "wrong_key": other.public.read_text(),
    }


@pytest.fixture
def system(tmp_path: Path, repository: dict[str, Any]) -> System:
    """An empty system."""
    for name in (
        "etc/apt/sources.list.d", "etc/apt/preferences.d", "var/lib/apt/lists/partial", "var/cache/apt/archives/partial",
        "var/lib/dpkg/updates", "var/lib/dpkg/info", "var/log/apt",
    ):  # fmt: skip
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/status").touch()
    return System(Apt(5, tmp_path, ["-o", "DPkg::Options::=--force-unsafe-io"]), tmp_path, **repository)


@pytest.fixture
def changing(system: System) -> System:
    """An empty system on which packages can be installed."""
    if os.geteuid() != 0:
        pytest.skip("dpkg installs as root only")
    return system
