"""The example inventory says only what the guard lets pass, and names every variable that a person may set."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusmith.inventory.names import check_inventory_names
from gpusmith.inventory.specs import PROJECT, Spec, load
from gpusmith.inventory.templates import has_open
from gpusmith.inventory.variables import check_hosts
from gpusmith.paths import repo_root

EXAMPLE = repo_root() / "inventory" / "example"
GROUP_FILES = sorted((EXAMPLE / "group_vars").glob("*.yml"))


def commented(text: str) -> dict[str, Any]:
    """Variables that a file shows in comments of the form '# name: value'."""
    lines = re.findall(r"^# ([a-z]+_[a-z0-9_]+:(?: .*)?(?:\n#   .*)*)$", text, re.MULTILINE)
    found: dict[str, Any] = {}
    for line in lines:
        found |= yaml.safe_load(line.replace("\n# ", "\n"))
    return found


@pytest.mark.parametrize("path", GROUP_FILES, ids=lambda path: path.stem)
def test_guard_accepts_the_example(path: Path) -> None:
    text = path.read_text()
    values = (yaml.safe_load(text) or {}) | commented(text)
    assert [str(refusal) for refusal in check_hosts({"example": values}, load())] == []


def test_guard_would_find_a_misspelt_name() -> None:
    (refusal,) = check_inventory_names(["nvidia_driver_verison"], load())
    assert "nvidia_driver_version" in str(refusal)


def shown() -> list[tuple[str, str, Spec]]:
    """Declared variables that are shown in comments: file, name, spec."""
    return [
        (path.name, name, load().variables[name])
        for path in GROUP_FILES
        for name in commented(path.read_text())
        if name in load().variables
    ]


@pytest.mark.parametrize(
    ("file", "name", "spec"), shown(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_what_is_commented_out_shows_the_default(file: str, name: str, spec: Spec) -> None:
    value = commented((EXAMPLE / "group_vars" / file).read_text())[name]
    # Where nothing is said by default, or it depends on another variable, an example may stand.
    assert value == spec.default or spec.default in (None, "", [], {}) or has_open(spec.default)


@pytest.mark.parametrize(
    ("file", "name", "spec"), shown(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_choices_of_the_example_are_those_of_the_spec(file: str, name: str, spec: Spec) -> None:
    text = (EXAMPLE / "group_vars" / file).read_text()
    # The comment above the variable's block, and the one behind its value.
    block = next(part for part in text.split("\n\n") if re.search(rf"^# {name}:", part, re.MULTILINE))
    behind = re.search(rf"^# {name}:.*# one of ((?:[^.:;\n]|\.(?=\w))*)", block, re.MULTILINE)
    told = [behind[1]] if behind else re.findall(r"one of ((?:[^.:]|\.(?=\w))*)", block)
    if spec.choices:
        assert told, f"'{name}' does not say 'one of …'"
        words = re.sub(r"\([^)]*\)?|\n#", "", told[0]).split(",")
        assert sorted(word.strip() for word in words) == sorted(spec.choices)


def test_example_names_every_project_variable() -> None:
    text = "".join(path.read_text() for path in GROUP_FILES)
    names = load().of(PROJECT)
    assert [name for name in names if not re.search(rf"^(# )?{name}:", text, re.MULTILINE)] == []


def test_example_groups_are_the_documented_ones() -> None:
    hosts = yaml.safe_load((EXAMPLE / "hosts.yml").read_text())
    assert set(hosts["all"]["children"]) == {"gpu_nodes", "kube_control_plane", "cpu_nodes"}


def test_models_of_the_example_exist() -> None:
    models = (repo_root() / "data/gpus.yml").read_text()
    for path in GROUP_FILES:
        model = (yaml.safe_load(path.read_text()) or {}).get("gpusmith_gpu_model")
        assert model is None or re.search(rf"^  {model}:", models, re.MULTILINE), (
            f"'{model}' is not in data/gpus.yml"
        )


def repositories(path: Path) -> dict[str, dict[str, Any]]:
    """Those of a file, also the ones that it only shows."""
    text = path.read_text()
    shown_too = re.findall(r"^# +([a-z_]+_repository:.*\n(?:#     .*\n?)+)", text, re.MULTILINE)
    values = yaml.safe_load(text) or {}
    values |= {f"shown-{n}": yaml.safe_load(row.replace("#   ", "")) for n, row in enumerate(shown_too)}
    rows = {}
    for name, value in values.items():
        given = next(iter(value.values())) if name.startswith("shown-") else value
        if isinstance(given, dict) and "uris" in given:
            rows[name] = given
    return rows


@pytest.mark.parametrize(
    ("group", "number"), [("all", 4), ("ubuntu_24_04", 3), ("el_9", 4)], ids=["all", "ubuntu_24_04", "el_9"]
)
def test_fingerprints_of_the_example_are_those_of_its_table(group: str, number: int) -> None:
    told = (EXAMPLE / "keys" / "README.md").read_text().replace(" ", "")
    found = repositories(EXAMPLE / "group_vars" / f"{group}.yml")
    assert len(found) == number
    for value in found.values():
        (key,) = re.findall(r"/keys/([a-z-]+\.asc)", value["key"])
        assert f"`{key}`|`{value['fingerprint']}`|" in told


def test_machines_of_another_system_have_all_their_repositories() -> None:
    """A machine whose group forgets one would be given Debian's."""
    debian = set(repositories(EXAMPLE / "group_vars" / "all.yml"))
    el = repositories(EXAMPLE / "group_vars" / "el_9.yml")
    assert set(el) == debian
    assert {row["type"] for row in el.values()} == {"rpm"}
    # Those of Kubernetes and of the container toolkit are the same for every system with apt.
    ubuntu = set(repositories(EXAMPLE / "group_vars" / "ubuntu_24_04.yml"))
    same = {"kubernetes_node_repository", "nvidia_container_toolkit_repository"}
    assert {name for name in ubuntu if "-" not in name} == debian - same
