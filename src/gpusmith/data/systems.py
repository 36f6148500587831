"""What differs between operating systems: variables in the files of a role, the closest one first."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from gpusmith import yaml_text
from gpusmith.errors import GpusmithError
from gpusmith.paths import repo_root

# Ansible's words for an os-release ID: distribution and os_family.
SYSTEMS: Mapping[str, tuple[str, str]] = {
    "debian": ("Debian", "Debian"),
    "ubuntu": ("Ubuntu", "Debian"),
    "rhel": ("RedHat", "RedHat"),
    "centos": ("CentOS", "RedHat"),
    "rocky": ("Rocky", "RedHat"),
    "almalinux": ("AlmaLinux", "RedHat"),
    "ol": ("OracleLinux", "RedHat"),
}


def os_facts(host: Mapping[str, Any]) -> dict[str, str]:
    """Ansible's facts of the operating system, by the record: gathering them would be a round trip more.

    Args:
        host: part of the record, with os_id and os_version.

    Returns:
        Empty for a system that is not known here, of which preflight says so.
    """
    names, version = SYSTEMS.get(str(host.get("os_id"))), str(host.get("os_version") or "")
    if names is None or not version:
        return {}
    return {
        "distribution": names[0],
        "distribution_version": version,
        "distribution_major_version": version.split(".", maxsplit=1)[0],
        "os_family": names[1],
    }


class UnknownSystem(GpusmithError):  # noqa: N818 - it says what is not known
    """No file of a role says what is asked for of a system."""


FACTS = ("distribution", "distribution_major_version", "os_family")


def candidates(facts: Mapping[str, Any]) -> list[str]:
    """Names of files for a system, the closest one first."""
    distribution, major, family = (str(facts[name]).replace(" ", "_") for name in FACTS)
    names = [f"{distribution}_{major}.yml", f"{distribution}.yml", f"{family}_{major}.yml", f"{family}.yml"]
    return list(dict.fromkeys(names))


def choose(folder: Path, facts: Mapping[str, Any]) -> Path:
    """The file for a system.

    Raises:
        UnknownSystem: facts are missing, or there is no file for it.
    """
    lacking = [name for name in FACTS if not facts.get(name)]
    if lacking:
        raise UnknownSystem(
            f"The operating system is not known: the facts lack {', '.join(lacking)}.",
            "Look at the node first (role 'gpusmith.gpu.node_record'), or gather facts.",
        )
    names = candidates(facts)
    for name in names:
        if (folder / name).is_file():
            return folder / name
    role = folder.resolve().parent.name
    there = sorted(path.name for path in folder.glob("*.yml") if path.name != "main.yml") or [
        "no file of a system"
    ]
    raise UnknownSystem(
        f"Role '{role}' does not support '{facts['distribution']} {facts['distribution_major_version']}'"
        f" (family '{facts['os_family']}'): '{folder}' has {', '.join(there)}.",
        f"To support it, add {' or '.join(names)}.",
    )


@cache
def _content(path: Path) -> Mapping[str, Any]:
    content: Mapping[str, Any] = yaml_text.load(path.read_text(encoding="utf-8"))
    return content or {}


def value(folder: Path, facts: Mapping[str, Any], name: str) -> Any:
    """A variable for a system, from the closest file that has it: a release's file has only what differs from its family's.

    Raises:
        UnknownSystem: facts are missing, there is no file for the system, or it has no such variable.
    """
    closest = choose(folder, facts)
    for path in (folder / each for each in candidates(facts)):
        if path.is_file() and name in _content(path):
            return _content(path)[name]
    raise UnknownSystem(f"'{closest}' does not have '{name}', nor does a file of its distribution or family.")


def of_role(role: str, facts: Mapping[str, Any], name: str) -> Any:
    """A variable of one of our roles, see `value`."""
    return value(repo_root() / "roles" / role / "vars", facts, name)
