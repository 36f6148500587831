"""What entries 'remove' ask of packages: a machine is then as one that never had them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusmith.paths import repo_root

from .test_reloads import flat

REMOVALS = sorted((repo_root() / "roles").glob("*/tasks/remove.yml"))
WITH_PACKAGES = {"containerd", "cuda_toolkit", "kubernetes_node", "nvidia_container_toolkit", "nvidia_driver"}
MODULE = "gpusmith.gpu.packages"


def variables(role: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((repo_root() / "roles" / role / "vars/main.yml").read_text())
    return found


def asked(path: Path) -> list[dict[str, Any]]:
    """What the tasks of a file ask of the module, where a variable says it with that one's value."""
    found = []
    for task in flat(yaml.safe_load(path.read_text())):
        words = task.get(MODULE)
        if isinstance(words, str):
            words = variables(path.parents[1].name)[re.findall(r"\w+", words)[0]]
        found += [words] if words else []
    return found


@pytest.mark.parametrize("path", REMOVALS, ids=lambda path: path.parents[1].name)
def test_packages_go_with_their_configuration_files(path: Path) -> None:
    leaving = [words for words in asked(path) if words.get("state") == "absent"]
    assert bool(leaving) is (path.parents[1].name in WITH_PACKAGES)
    assert [words["name"] for words in leaving if words.get("purge") is not True] == []


def test_with_containerd_go_all_drop_ins_that_roles_write() -> None:
    """While one is left, the root file is ours, and a purge would keep it as a person's."""
    (module,) = [
        task
        for task in flat(yaml.safe_load((repo_root() / "roles/containerd/tasks/remove.yml").read_text()))
        if "gpusmith.gpu.containerd_config" in task
    ]
    names = {
        variables("containerd")["__containerd_own"]["name"],
        variables("nvidia_container_toolkit")["__nvidia_container_toolkit_own"]["name"],
    }
    assert set(module["loop"]) == names
