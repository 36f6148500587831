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
version_added: "0.1.0"
author: gpusmith contributors
positional: _input, record, upgrade
options:
  _input:
    description: The version that is asked for.
    type: str
    required: true
  record:
    description: Record of the node, as M(gpusmith.gpu.node_state) says it.
    type: dict
    required: true
  upgrade:
    description: Whether nodes that keep their driver otherwise get it as well.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Choose
  ansible.builtin.include_tasks: version.yml
  when: nvidia_driver_version | gpusmith.gpu.driver_to_come(node_record_now.record)
"""

RETURN = r"""
_value:
  description: Whether it has to be chosen.
  type: bool
"""


def driver_to_come(asked: object, record: Mapping[str, Any], upgrade: bool = False) -> bool:
    """See DOCUMENTATION."""
    return versions.is_open(str(asked)) and choice.is_to_come(parse(record), str(asked), upgrade)


FilterModule = filter_module(driver_to_come)
