"""Filter: how a node's CUDA toolkits differ from what the inventory says, from the probe's record."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.plans import filter_module, of_record

from gpusmith.expect import plans

DOCUMENTATION = r"""
name: cuda_plan
short_description: How a node's CUDA toolkits differ from what the inventory says
description:
  - Compares the installed CUDA toolkits, and the one that C(/usr/local/cuda) leads to, with the inventory.
version_added: "0.1.0"
author: gpusmith contributors
extends_documentation_fragment: gpusmith.gpu.plan
positional: settings
options:
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


FilterModule = filter_module(cuda_plan)
