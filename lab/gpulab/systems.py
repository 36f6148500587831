"""The operating systems that machines can have, as lab/images/systems.yml describes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gpusmith import yaml_text
from gpusmith.errors import InputError

DEFAULT = "debian-12"
TABLE = Path(__file__).resolve().parents[1] / "images" / "systems.yml"
USER_LAND_FILE = "/etc/gpusmith-user-land"
"""Where a machine says what its user land is, if that is not its distribution's; the probe reads it."""

PACKAGES, METADATA, BOTH = "packages", "metadata", "both"
SIGNED: Mapping[str, str] = {
    # developer.download.nvidia.com: 'gpgcheck=1' in cuda-rhel9.repo.
    "cuda": PACKAGES,
    "cuda-broken": PACKAGES,
    # nvidia.github.io/libnvidia-container: 'repo_gpgcheck=1', 'gpgcheck=0' in nvidia-container-toolkit.repo.
    "nvidia-container-toolkit": METADATA,
    # pkgs.k8s.io: kubernetes.io has 'gpgcheck=1'; repomd.xml.asc is there as well.
    "kubernetes": BOTH,
    # download.docker.com: 'gpgcheck=1' in docker-ce.repo.
    "containerd": PACKAGES,
    # Rocky's own and EPEL: 'gpgcheck=1'.
    "baseos": PACKAGES,
    "epel": PACKAGES,
}
"""What is signed in a repository for dnf, by its name, as the vendors' own repository files and installation guides have it."""


@dataclass(frozen=True)
class System:
    """One operating system.

    Attributes:
        name: as `--os` takes it.
        image: name of the machine image.
        rootfs: root file system of that image.
        manager: 'apt' or 'dnf'.
        archive: the distribution's own repositories, which an installer configures.
        overlays: folders of lab/images.
        hooks: scripts of lab/images.
        user_land: what a machine says of itself, where its user land is not the distribution's.
        tag: the distribution's tag in releases of rpm packages.
    """

    name: str
    image: str
    rootfs: str
    manager: str
    archive: tuple[str, ...]
    overlays: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()
    user_land: str = ""
    tag: str = ""

    @property
    def own_repositories(self) -> bool:
        """Whether its packages are in repositories of its own; Debian's releases share theirs."""
        return bool(self.user_land)

    @property
    def variable(self) -> str:
        """Its name as a part of names of groups."""
        return self.name.replace("-", "_").replace(".", "_")

    def identity(self) -> tuple[tuple[str, str], ...]:
        """Files by which a machine says what it is: path and text."""
        if not self.user_land:
            return ()
        return (
            ("/etc/issue", f"{self.user_land} (gpusmith lab) \\n \\l\n\n"),
            (USER_LAND_FILE, f"{self.user_land}\n"),
        )


@cache
def known() -> dict[str, System]:
    """All of them by name."""
    rows: dict[str, dict[str, Any]] = yaml_text.load(TABLE.read_text())
    return {name: System(name=name, **_as_tuples(row)) for name, row in rows.items()}


def _as_tuples(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}


def system(name: str) -> System:
    """The one of that name.

    Raises:
        InputError: there is none; lists those that are.
    """
    found = known().get(name)
    if found is None:
        raise InputError(f"The lab has no operating system '{name}'.", f"There are {', '.join(known())}.")
    return found


def in_use(names: Sequence[str]) -> list[System]:
    """These, each once and in the table's order."""
    for name in names:
        system(name)
    return [row for name, row in known().items() if name in names]
