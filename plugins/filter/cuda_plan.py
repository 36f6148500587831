"""Filter: how a node's CUDA toolkits differ from what the inventory says, from the probe's record."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.plans import of_record

from gpusmith.expect import plans

DOCUMENTATION = r"""
name: cuda_plan
short_description: How a node's CUDA toolkits differ from what the inventory says
version_added: "0.1.0"
author: gpusmith contributors
positional: settings
options:
  _input:
    description: Record of M(gpusmith.gpu.node_state).
    type: dict
    required: true
  settings:
    description: Keys node, versions (MAJOR.MINOR) and default.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Plan
  ansible.builtin.debug:
    msg: "{{ record | gpusmith.gpu.cuda_plan(settings) }}"
"""

RETURN = r"""
_value:
  description: >-
    problems (in words), cures (kinds of cure that are needed, see C(gpusmith.problems)), missing (versions), others (versions that are there and
    not asked for), files (none).
  type: dict
"""


@of_record
def cuda_plan(record: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """See DOCUMENTATION."""
    return plans.cuda_toolkit(record, settings)


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """By name."""
        return {"cuda_plan": cuda_plan}
