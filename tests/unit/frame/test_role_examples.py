"""The plays in the READMEs of roles: each calls its role with what the guard lets pass, and Ansible can read it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusmith.inventory.specs import load
from gpusmith.inventory.templates import has_open
from gpusmith.inventory.variables import check_hosts
from gpusmith.paths import repo_root
from tests.unit.keys import KEY

ROLES = sorted(path for path in (repo_root() / "roles").iterdir() if path.is_dir())
PLAYBOOKS = repo_root() / "playbooks"
KEYS = repo_root() / "inventory/example/keys/README.md"
IMPORT_ROLE, IMPORT_PLAYBOOK = "ansible.builtin.import_role", "ansible.builtin.import_playbook"
OURS = "gpusmith.gpu."
# What is no module in a play or a task.
KEYWORDS = {"name", "hosts", "become", "gather_facts", "vars", "tasks"}
FILE = re.compile(r"{{ lookup\('ansible\.builtin\.file', inventory_dir ~ '/keys/([a-z-]+\.asc)'\) }}")
HOME = "{{ lookup('ansible.builtin.env', 'HOME') }}"

by_role = pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)


def text_of(role: Path) -> str:
    """The example, which stands between what the role does and where its variables are described."""
    before, found, rest = (role / "README.md").read_text().partition("\n## Example\n")
    assert found, f"README of role '{role.name}' has no example"
    section, variables, _ = rest.partition("\n## Variables\n")
    assert variables, f"README of role '{role.name}' does not say where its variables are described"
    assert "\n## " not in before + section
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return str(block)


def plays_of(role: Path) -> list[dict[str, Any]]:
    plays = yaml.safe_load(text_of(role))
    assert isinstance(plays, list)
    assert plays
    return plays


def filled_in(value: Any) -> Any:
    """A value with the lookups that inventory/example has, too."""
    if isinstance(value, dict):
        return {key: filled_in(part) for key, part in value.items()}
    if isinstance(value, list):
        return [filled_in(part) for part in value]
    return FILE.sub(KEY, value).replace(HOME, "/root") if isinstance(value, str) else value


def modules(steps: list[dict[str, Any]]) -> list[str]:
    """Names of what plays or tasks run."""
    return [name for step in steps for name in step if name not in KEYWORDS]


def reached(path: Path) -> set[str]:
    """Roles that a playbook, or a role, leads to."""
    found: set[str] = set()
    waiting = [path]
    while waiting:
        text = waiting.pop().read_text()
        books = re.findall(r"import_playbook: (\S+\.yml)", text)
        waiting += [PLAYBOOKS / book for book in books]
        for name in set(re.findall(rf"name: {re.escape(OURS)}(\w+)", text)) - found:
            found.add(name)
            waiting += sorted((repo_root() / "roles" / name / "tasks").glob("*.yml"))
    return found


@by_role
def test_the_example_calls_the_role_itself(role: Path) -> None:
    for play in plays_of(role):
        assert play["name"]
        if IMPORT_PLAYBOOK in play:
            # A site does not call the role alone.
            assert set(play) == {"name", IMPORT_PLAYBOOK}
            book = play[IMPORT_PLAYBOOK]
            assert book.startswith(OURS)
            assert role.name in reached(PLAYBOOKS / f"{book.removeprefix(OURS)}.yml")
        else:
            assert play["hosts"] == "gpu_nodes"
            called = [task[IMPORT_ROLE] for task in play["tasks"] if IMPORT_ROLE in task]
            assert called == [{"name": f"{OURS}{role.name}"}]


@by_role
def test_all_modules_have_their_full_names(role: Path) -> None:
    plays = plays_of(role)
    found = modules(plays) + modules([task for play in plays for task in play.get("tasks", [])])
    assert [name for name in found if not re.fullmatch(r"\w+\.\w+\.\w+", name)] == []


@by_role
def test_the_guard_accepts_the_variables(role: Path) -> None:
    specs = load()
    values = {name: value for play in plays_of(role) for name, value in play.get("vars", {}).items()}
    assert set(values) <= set(specs.variables)
    filled = filled_in(values)
    assert not has_open(filled), "a template that this test does not know"
    assert [str(refusal) for refusal in check_hosts({"example": filled}, specs)] == []


def repositories() -> dict[str, dict[str, Any]]:
    return {
        name: value
        for role in ROLES
        for play in plays_of(role)
        for name, value in play.get("vars", {}).items()
        if name.endswith("_repository")
    }


def test_repositories_are_those_of_the_example_inventory() -> None:
    inventory = yaml.safe_load((repo_root() / "inventory/example/group_vars/all.yml").read_text())
    found = repositories()
    assert len(found) == 4
    assert found == {name: inventory[name] for name in found}
