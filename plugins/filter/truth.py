"""Filter for truth values, which an inventory may write in any of Ansible's words."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.filter_files import filter_module

from gpusmith.inventory import values

DOCUMENTATION = r"""
name: truth
short_description: The truth value that a word stands for
description:
  - Takes y, yes, t, true, on, 1 and their opposites in any case, as types of argument_specs do. C(ansible.builtin.bool) does not know
    C(y) and C(t), and a word that is no truth value is true in a condition.
author: gpusmith contributors
options:
  _input: {type: raw, required: true, description: "A truth value, or a word for one."}
"""

RETURN = r"""
_value: {type: bool, description: The truth value.}
"""


def truth(value: Any) -> bool:
    """The truth value, or an error that names what is none."""
    found: bool | None = values.truth(value)
    if found is None:
        raise AnsibleFilterError(f"'{value}' is neither true nor false. Correct it in the inventory.")
    return found


FilterModule = filter_module(truth)
