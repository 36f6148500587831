"""Variables that a role gives to another one are worked out there: what reads files of its own role finds none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from gpusmith.paths import repo_root
from tests.unit.roles.test_reloads import of_files

OWN_FILES = re.compile(r"role_path|lookup\('ansible\.builtin\.(template|file)', '")
NAME = re.compile(r"\b(__\w+)")


def reads_own_files(text: str, variables: Mapping[str, Any], seen: frozenset[str] = frozenset()) -> bool:
    """Whether an expression reads files of its role, by itself or by the role's variables."""
    names = set(NAME.findall(text)) & set(variables) - seen
    return bool(OWN_FILES.search(text)) or any(
        reads_own_files(str(variables[name]), variables, seen | names) for name in names
    )


def variables_of(role: Path) -> Mapping[str, Any]:
    path = role / "vars" / "main.yml"
    found: Mapping[str, Any] = (yaml.safe_load(path.read_text()) if path.exists() else None) or {}
    return found


def test_plans_read_files_of_their_role() -> None:
    variables = variables_of(repo_root() / "roles/nvidia_driver")
    assert reads_own_files("{{ __nvidia_driver_plan.cures }}", variables)
    assert not reads_own_files("{{ __nvidia_driver_unit }}", variables)


def test_no_role_gives_another_what_is_read_from_its_own_files() -> None:
    found = []
    for path, task in of_files():
        role = path.parent.parent
        included = (task.get("ansible.builtin.include_role") or {}).get("name", "").rpartition(".")[2]
        if included and included != role.name:
            given = task.get("vars") or {}
            found += [
                f"{path.relative_to(repo_root())}: {name}"
                for name, value in given.items()
                if reads_own_files(str(value), variables_of(role))
            ]
    assert found == [], "items of a loop are worked out before the role is included"
