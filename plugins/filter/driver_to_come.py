"""Filter: whether the driver's version has to be chosen for a node before anything can be planned for it."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.filter_files import filter_module

from gpusmith.expect import choice, versions
from gpusmith.node.records import parse

DOCUMENTATION = r"""
name: driver_to_come
short_description: Whether the driver's version has to be chosen for a node
description:
  - True where a branch of the driver is asked for, or the latest version, and the node gets it in this run. A node that serves keeps its driver,
    and so does a machine outside of the cluster that has one of the branch loaded.
author: gpusmith contributors
positional: _input, record, upgrade
options:
  _input: {type: str, required: true, description: The version that is asked for.}
  record: {type: dict, required: true, description: "Record of the node, as M(gpusmith.gpu.node_state) says it."}
  upgrade: {type: bool, default: false, description: Whether nodes that keep their driver otherwise get it as well.}
"""

RETURN = r"""
_value: {type: bool, description: Whether it has to be chosen.}
"""


def driver_to_come(asked: object, record: Mapping[str, Any], upgrade: bool = False) -> bool:
    """See DOCUMENTATION."""
    return versions.is_open(str(asked)) and choice.is_to_come(parse(record), str(asked), upgrade)


FilterModule = filter_module(driver_to_come)
