"""The operating systems that are served, as Ansible's facts tell them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpusmith.data import systems
from gpusmith.paths import repo_root

Facts = Mapping[str, str]


def facts(distribution: str, major: str, family: str) -> Facts:
    return {"distribution": distribution, "distribution_major_version": major, "os_family": family}


SYSTEMS: Mapping[str, Facts] = {
    "Debian 12": facts("Debian", "12", "Debian"),
    "Debian 13": facts("Debian", "13", "Debian"),
    "Ubuntu 22": facts("Ubuntu", "22", "Debian"),
    "Ubuntu 24": facts("Ubuntu", "24", "Debian"),
    "RedHat 9": facts("RedHat", "9", "RedHat"),
    "Rocky 9": facts("Rocky", "9", "RedHat"),
    "Rocky 10": facts("Rocky", "10", "RedHat"),
    "AlmaLinux 10": facts("AlmaLinux", "10", "RedHat"),
}

DIFFERENT = ("Debian 12", "Ubuntu 22", "Ubuntu 24", "Rocky 9", "Rocky 10")
"""Of these, those whose roles read different files."""


def files(system: str) -> frozenset[str]:
    """All files of roles that say something about a system."""
    names = systems.candidates(SYSTEMS[system])
    roles = (repo_root() / "roles").glob("*/vars")
    return frozenset(str(folder / name) for folder in roles for name in names if (folder / name).is_file())


def value(role: str, system: str, name: str) -> Any:
    """A variable of a role for a system."""
    return systems.of_role(role, SYSTEMS[system], name)
