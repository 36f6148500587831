"""The example inventory says only what the guard lets pass, and names every variable that a person may set."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpusmith.gpu.plugins.module_utils import guard

from gpusmith.paths import repo_root

EXAMPLE = repo_root() / "inventory" / "example"
GROUP_FILES = sorted((EXAMPLE / "group_vars").glob("*.yml"))


def specs() -> list[dict[str, Any]]:
    files = [
        repo_root() / "meta/project_argument_specs.yml",
        *sorted(repo_root().glob("roles/*/meta/argument_specs.yml")),
    ]
    return [yaml.safe_load(path.read_text()) for path in files]


def prefixes() -> list[str]:
    return list(guard.prefixes_of(path.name for path in (repo_root() / "roles").iterdir()))


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
    options = guard.options_of(specs())
    findings = [
        *guard.check_inventory_names(values, options, prefixes()),
        *guard.check_values(values, options),
    ]
    assert [finding.text() for finding in findings] == []


def test_guard_would_find_a_misspelt_name() -> None:
    findings = guard.check_inventory_names(["nvidia_driver_verison"], guard.options_of(specs()), prefixes())
    assert "nvidia_driver_version" in findings[0].text()


def test_example_names_every_project_variable() -> None:
    project = yaml.safe_load((repo_root() / "meta/project_argument_specs.yml").read_text())
    text = "".join(path.read_text() for path in GROUP_FILES)
    names = project["argument_specs"]["main"]["options"]
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
