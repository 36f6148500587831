"""The arguments of a task of an action plugin, checked against the documentation of the module of the same name."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import yaml
from ansible.plugins.action import ActionBase
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import plain

MODULES = "ansible_collections.gpusmith.gpu.plugins.modules"
CHECKED = ("type", "elements", "choices", "default", "required")


def spec_of(name: str, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The argument_spec of a module, from its documentation.

    Args:
        name: of the module.
        without: options that tasks cannot give, since only the action plugin does.
    """
    options = yaml.safe_load(importlib.import_module(f"{MODULES}.{name}").DOCUMENTATION)["options"]
    return _spec({key: option for key, option in options.items() if key not in without})


def _spec(options: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {
        key: {
            **{word: option[word] for word in CHECKED if word in option},
            **({"options": _spec(option["suboptions"])} if "suboptions" in option else {}),
        }
        for key, option in options.items()
    }


def arguments(action: ActionBase, without: tuple[str, ...] = (), **rules: Any) -> dict[str, Any]:
    """What a task gives, as plain data.

    Args:
        action: the plugin, in the file of its name.
        without: see `spec_of`.
        rules: between options, such as required_together.

    Raises:
        AnsibleError: the task gives something else.
    """
    name = type(action).__module__.rpartition(".")[2]
    _validation, given = action.validate_argument_spec(argument_spec=spec_of(name, without), **rules)
    found: dict[str, Any] = plain(given)
    return found
