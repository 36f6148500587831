"""Action plugins of the controller: they take what their documentation says, connect to no host, and fail in words."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.arguments import spec_of
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import ControllerAction
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import plain

from gpusmith.paths import repo_root

FITTING = {"str": "a", "path": "/a", "dict": {}, "list": [], "float": 1.0, "int": 1, "bool": True}
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


@pytest.mark.parametrize(
    "name", [*ACTIONS, "device_plugin_restart", "driver_build", "driver_upgrade", "guard", "tell"]
)
def test_documentation_says_what_it_takes(name: str) -> None:
    spec = spec_of(name)
    assert not [key for key, option in spec.items() if option.get("required") and "default" in option]
    required = {
        key: option.get("choices", [FITTING[option["type"]]])[0]
        for key, option in spec.items()
        if option.get("required")
    }
    assert ArgumentSpecValidator(spec).validate(required).error_messages == []
    (refusal,) = ArgumentSpecValidator(spec).validate({**required, "misspelt": 1}).error_messages
    assert "misspelt" in refusal


def test_options_of_options_are_read_and_those_of_the_plugin_are_not_given() -> None:
    assert spec_of("driver_build")["signing"]["options"]["key"] == {"type": "path", "default": ""}
    assert {"step", "ready"} & set(spec_of("serving_change"))
    assert not {"step", "ready"} & set(spec_of("serving_change", without=("step", "ready")))
    assert spec_of("serving_change")["restart_with"]["choices"] == ["files", "packages"]


def test_templates_are_filled_in_before_the_work() -> None:
    given = {"a": ({"b": [1, "x"]},), 2: None}
    assert plain(given) == {"a": [{"b": [1, "x"]}], "2": None}
