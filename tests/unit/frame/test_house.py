"""Every role has the shape of the house, and its documentation names exactly what it takes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpusmith.gpu.plugins import plugin_utils

from gpusmith.inventory import specs, templates
from gpusmith.inventory.variables import check_values
from gpusmith.paths import repo_root

ROLES = sorted(path for path in (repo_root() / "roles").iterdir() if path.is_dir())
FILES = ("README.md", "meta/argument_specs.yml", "tasks/main.yml")
GROUPS = ("gpu_nodes", "kube_control_plane", "cpu_nodes")


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text()) or {}


def defaults_of(role: Path) -> dict[str, Any]:
    """Public variables of a role; one without any has no such file."""
    path = role / "defaults/main.yml"
    return dict(load(path)) if path.exists() else {}


by_role = pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)


@by_role
def test_house_files(role: Path) -> None:
    missing = [name for name in FILES if not (role / name).is_file()]
    assert not missing, f"role '{role.name}' lacks {missing}"


@by_role
def test_specs_name_what_defaults_name(role: Path) -> None:
    variables, defaults = specs.load().of(role.name), defaults_of(role)
    # What must be given has no default.
    required = {name for name, spec in variables.items() if spec.required}
    assert set(variables) - required <= set(defaults), "options of meta/argument_specs.yml without a default"
    assert set(defaults) <= set(variables), (
        "names of defaults/main.yml that meta/argument_specs.yml does not declare"
    )


@by_role
def test_specs_state_the_defaults_that_hold(role: Path) -> None:
    stated = {
        name: spec.default for name, spec in specs.load().of(role.name).items() if spec.default is not None
    }
    defaults = defaults_of(role)
    assert stated == {name: defaults[name] for name in stated}
    # Only a default that is worked out from the run may be left to words of the description.
    assert [
        name for name, value in defaults.items() if name not in stated and not templates.is_open(value)
    ] == []


def test_defaults_fit_their_specs() -> None:
    stated = {name: spec.default for name, spec in specs.load().variables.items() if spec.default is not None}
    assert [str(refusal) for refusal in check_values(stated, specs.load())] == []


@by_role
def test_specs_describe_every_option(role: Path) -> None:
    bare = [name for name, spec in specs.load().of(role.name).items() if not spec.description]
    assert not bare, f"options of role '{role.name}' without a description: {bare}"


@by_role
def test_public_names_begin_with_the_role(role: Path) -> None:
    foreign = [name for name in defaults_of(role) if not name.startswith(f"{role.name}_")]
    assert not foreign


@by_role
def test_defaults_are_commented(role: Path) -> None:
    above = ""
    path = role / "defaults/main.yml"
    for line in path.read_text().splitlines() if path.exists() else ():
        # A comment stands for the names that follow it without an empty line.
        if re.match(r"[a-z_]+:", line):
            assert above == "commented", f"'{line}' of role '{role.name}' has no comment above it"
        elif not line.strip():
            above = ""
        elif line.startswith("#"):
            above = "commented"


@by_role
def test_no_group_names_in_roles(role: Path) -> None:
    for path in sorted(role.rglob("*.yml")):
        code = "\n".join(
            line.split(" #")[0] for line in path.read_text().splitlines() if not line.lstrip().startswith("#")
        )
        used = [group for group in GROUPS if re.search(rf"groups(\.|\[['\"]){group}|hosts: {group}", code)]
        assert not used, f"'{path}' knows groups of the inventory: {used}"


@by_role
def test_no_bare_sleeps(role: Path) -> None:
    for path in sorted(role.rglob("*.yml")):
        assert "ansible.builtin.pause" not in path.read_text(), f"'{path}' waits without a condition"


def test_versions_agree() -> None:
    galaxy = load(repo_root() / "galaxy.yml")
    project = (repo_root() / "pyproject.toml").read_text()
    assert f'version = "{galaxy["version"]}"' in project
    assert f'version = "{galaxy["version"]}"' in (repo_root() / "lab/pyproject.toml").read_text()
    assert galaxy["version"] == plugin_utils.VERSION
    assert f"## {galaxy['version']}" in (repo_root() / "CHANGELOG.md").read_text()
    plugins = "\n".join(path.read_text() for path in (repo_root() / "plugins").rglob("*.py"))
    assert set(re.findall(r'^version_added: "(.+)"$', plugins, re.MULTILINE)) == {galaxy["version"]}


def written_in(*folders: str) -> str:
    """All YAML of these folders."""
    return "\n".join(path.read_text() for name in folders for path in (repo_root() / name).rglob("*.yml"))


def test_the_collection_declares_what_its_content_uses() -> None:
    used = set(
        re.findall(
            r"\b((?:ansible|community|kubernetes)\.[a-z]+)\.[a-z_]+:", written_in("roles", "playbooks")
        )
    )
    assert used - {"ansible.builtin"} == set(load(repo_root() / "galaxy.yml")["dependencies"])


def test_truth_values_of_the_inventory_are_read_as_the_guard_reads_them() -> None:
    """Ansible's own filter takes 'y' and 't' for false."""
    flags = "|".join(name for name, spec in specs.load().variables.items() if spec.type == "bool")
    assert re.findall(rf"\b(?<!__)(?:{flags})\b[^|{{}}]*\| *bool\b", written_in("roles", "playbooks")) == []


def test_defaults_that_are_repeated_are_those_of_the_specs() -> None:
    """Where a role reads another one's variable, that role's own default does not hold."""
    variables = specs.load().variables
    repeated = re.findall(
        r"\b([a-z_]+) \| default\(('[^']*'|\[[^]]*\]|\w+)\)", written_in("roles", "playbooks")
    )
    # None means: whatever the spec says. A variable without a default may be read as any empty value.
    found = [
        (name, yaml.safe_load(literal))
        for name, literal in repeated
        if name in variables and literal != "none"
    ]
    assert found
    assert [
        row for row in found if row[1] != variables[row[0]].default and (row[1] or variables[row[0]].default)
    ] == []


# What roles keep of a node for each other and for plays, and a key of a mapping.
HANDED_ON = {
    "node_record_now", "nvidia_driver_choice", "nvidia_driver_offers", "nvidia_driver_reboot_reason",
    "nvidia_driver_upgrade_order", "nvidia_driver_upgrade_outcome", "gpu_upgrade_queue", "validation_timeout",
}  # fmt: skip


def test_names_of_variables_in_roles_and_playbooks_are_declared() -> None:
    """One that is gone would read as undefined on a machine, or as its default."""
    known = specs.load()
    ours = re.compile(rf"(?<![\w.'/-])(?:{'|'.join(known.prefixes)})\w+\b(?!\.)")
    found = []
    for path in (path for name in ("roles", "playbooks") for path in (repo_root() / name).rglob("*")):
        if path.suffix in (".yml", ".j2") and path.parent.name != "meta":
            lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
            names = {name for line in lines for name in ours.findall(line.split(" #")[0])}
            found += [f"{path}: {name}" for name in sorted(names - set(known.variables) - HANDED_ON)]
    assert found == []


def test_the_index_of_the_documentation_lists_every_page() -> None:
    folder = repo_root() / "docs"
    pages = {path.name for path in folder.iterdir() if path.is_file()} - {"README.md"}
    assert pages <= set(re.findall(r"\]\(([\w.-]+)\)", (folder / "README.md").read_text()))


@by_role
def test_every_entry_remove_is_run_by_a_test(role: Path) -> None:
    names = (
        "molecule/default/cleanup.yml",
        "tests/e2e/test_5_pipeline.py",
        "tests/e2e/test_5_tenants.py",
        "tests/e2e/test_6_monitoring.py",
        "tests/e2e/test_7_removal.py",
    )
    runs = [repo_root() / name for name in names]
    text = "\n".join(path.read_text() for path in runs)
    # And by the playbooks that they name.
    text += "\n".join(
        (repo_root() / name).read_text()
        for name in re.findall(r"playbooks/(?:remove_\w+|run_pipeline)\.yml", text)
    )
    tested = re.search(rf"gpusmith\.gpu\.{role.name}\b.{{0,40}}\btasks_from\W+remove", text, re.DOTALL)
    assert (role / "tasks/remove.yml").is_file() == bool(tested)
    promised = "`tasks_from: remove`" in (role / "README.md").read_text()
    assert promised == bool(tested), f"README of role '{role.name}' and its tests disagree about 'remove'"


# What roles need of packages they say to `gpusmith.gpu.packages`, which knows the machine's package manager.
PACKAGE_MANAGERS = re.compile(
    r"\b(?:apt-mark|apt-cache|apt-get|apt-key|dpkg[\w-]*|dnf|yum|rpm)\b|ansible\.(?:builtin|posix)\.(?:apt|deb822|dpkg|dnf|yum|rpm|package)\w*"
)


@by_role
def test_no_package_manager_in_roles(role: Path) -> None:
    # What a role's arguments may be, as 'rpm' of a repository, runs nothing.
    files = [
        path for path in role.rglob("*") if path.suffix in (".yml", ".j2") and path.parent.name != "meta"
    ]
    for path in sorted(files):
        code = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
        used = sorted({found.group() for line in code for found in PACKAGE_MANAGERS.finditer(line)})
        assert not used, f"'{path}' asks a package manager itself: {used}. Use 'gpusmith.gpu.packages'."


def test_the_backends_stand_alone_on_a_node() -> None:
    """No module but the door's own knows apt or dnf, and the door takes nothing from the rest of the project."""
    used = {
        str(path.relative_to(repo_root()))
        for path in (repo_root() / "plugins").rglob("*.py")
        if re.search(r"\"(?:apt-get|apt-mark|apt-cache|dpkg-query|dpkg|dnf|rpm|rpmkeys)\"", path.read_text())
    }
    assert used <= {
        "plugins/module_utils/packages/__init__.py",
        "plugins/module_utils/packages/apt.py",
        "plugins/module_utils/packages/apt_machine.py",
        "plugins/module_utils/packages/dnf.py",
        "plugins/module_utils/packages/dnf_archives.py",
        "plugins/module_utils/packages/dnf_machine.py",
        "plugins/module_utils/packages/dnf_repair.py",
        "plugins/module_utils/packages/repositories.py",
        "plugins/module_utils/packages/signatures.py",
        "plugins/plugin_utils/packages_due.py",
    }


def calls(tasks: Any) -> list[dict[str, Any]]:
    """Imports and includes of roles in plays and tasks, also those inside of blocks."""
    found: list[dict[str, Any]] = []
    for task in tasks or ():
        found += [
            task[name]
            for name in ("ansible.builtin.import_role", "ansible.builtin.include_role")
            if name in task
        ]
        for part in ("tasks", "pre_tasks", "post_tasks", "block", "rescue", "always"):
            found += calls(task.get(part))
    return found


PLAYBOOKS = sorted((repo_root() / "playbooks").rglob("*.yml"))


@pytest.mark.parametrize("path", PLAYBOOKS, ids=lambda path: path.name)
def test_playbooks_have_arguments_validated_by_the_guard_alone(path: Path) -> None:
    # A task for each role and host would do it once more, and take a fifth of a second run. Who calls a role alone gets it.
    assert [call["name"] for call in calls(load(path)) if call.get("rolespec_validate") is not False] == []


@by_role
def test_no_playbook_reads_the_variables_of_a_role(role: Path) -> None:
    """Their templates need what is defined inside of the role alone, such as 'role_path'."""
    path = role / "vars" / "main.yml"
    names = set(load(path)) if path.exists() else set()
    for playbook in PLAYBOOKS:
        used = names & set(re.findall(r"\b__\w+", playbook.read_text()))
        assert not used, f"'{playbook}' reads {sorted(used)}."


def conditional_blocks(tasks: Any) -> list[dict[str, Any]]:
    """Blocks that have a condition, in tasks."""
    blocks = [task for task in tasks or () if "block" in task]
    inner = [found for task in blocks for found in conditional_blocks(task["block"])]
    return [task for task in blocks if "when" in task] + inner


@by_role
def test_no_other_role_is_included_under_the_condition_of_a_block(role: Path) -> None:
    """Its tasks inherit the condition, and find no 'role_path' of ours for the variables in it."""
    for path in sorted((role / "tasks").glob("*.yml")):
        for block in conditional_blocks(load(path)):
            assert "__" not in str(block["when"]) or calls(block["block"]) == [], f"{path}: {block['name']}"


@by_role
def test_roles_do_not_validate_the_arguments_of_a_look_at_the_node(role: Path) -> None:
    looks = [call for path in sorted((role / "tasks").glob("*.yml")) for call in calls(load(path))]
    assert [call["name"] for call in looks if call.get("rolespec_validate") is not False] == []


def test_arguments_that_must_be_given_are_parts_of_variables() -> None:
    # The guard, which validates for all roles, knows no variable that every host must have.
    assert [name for name, spec in specs.load().variables.items() if spec.required] == []
