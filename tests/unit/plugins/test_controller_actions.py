"""Action plugins of the controller: they take what their documentation says, connect to no host, and fail in words."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import yaml
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import ControllerAction, plain

from gpusmith.paths import repo_root

COLLECTION = "ansible_collections.gpusmith.gpu.plugins"


def controller_actions() -> dict[str, Any]:
    names = [path.stem for path in (repo_root() / "plugins/action").glob("*.py")]
    found = {name: importlib.import_module(f"{COLLECTION}.action.{name}").ActionModule for name in names}
    return {name: found[name] for name in sorted(found) if issubclass(found[name], ControllerAction)}


ACTIONS = controller_actions()


def test_what_is_done_in_the_cluster_is_among_them() -> None:
    assert set(ACTIONS) >= {
        "allocatable_wait", "foreign_operands", "node_metadata", "node_removal", "node_stamp", "operands",
        "validation_plan", "validation_run",
    }  # fmt: skip


@pytest.mark.parametrize("name", ACTIONS)
def test_documentation_names_what_it_takes(name: str) -> None:
    module = importlib.import_module(f"{COLLECTION}.modules.{name}")
    options = yaml.safe_load(module.DOCUMENTATION)["options"]
    documented = {
        key: {word: value for word, value in option.items() if word != "description"}
        for key, option in options.items()
    }
    assert documented == ACTIONS[name].SPEC


def test_templates_are_filled_in_before_the_work() -> None:
    given = {"a": ({"b": [1, "x"]},), 2: None}
    assert plain(given) == {"a": [{"b": [1, "x"]}], "2": None}
