"""Filter: what preflight found on all hosts, as lines for a person."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.plans import filter_module

from gpusmith.preflight import table

DOCUMENTATION = r"""
name: preflight_table
short_description: What preflight found on all hosts, as lines for a person
description:
  - A reason is told once, with all hosts that are refused for it. A host without a result could not be reached.
version_added: "0.1.0"
author: gpusmith contributors
positional: hostvars, end, name
options:
  _input:
    description: Names of the hosts.
    type: list
    elements: str
    required: true
  hostvars:
    description: Variables of all hosts.
    type: dict
    required: true
  end:
    description: The last line.
    type: str
    required: true
  name:
    description: Variable that holds the result of M(gpusmith.gpu.preflight).
    type: str
    default: __preflight_answer
"""

EXAMPLES = r"""
- name: Show what was found
  ansible.builtin.debug:
    msg: "{{ ansible_play_hosts_all | gpusmith.gpu.preflight_table(hostvars, 'Nothing was changed.') }}"
"""

RETURN = r"""
_value:
  description: Lines; none if no host is refused.
  type: list
  elements: str
"""


def preflight_table(
    hosts: Sequence[str], hostvars: Mapping[str, Any], end: str, name: str = "__preflight_answer"
) -> list[str]:
    """Lines for a person from the registered results, and a last line; empty if no host is refused."""
    lines = table.table({host: table.of_host(hostvars[host].get(name)) for host in hosts})
    return [*lines, end] if lines else []


FilterModule = filter_module(preflight_table)
