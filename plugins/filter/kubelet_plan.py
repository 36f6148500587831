"""Filter: how a node's kubelet differs from what the inventory says, from the probe's record."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.plans import filter_module, of_record

from gpusmith.expect import plans

DOCUMENTATION = r"""
name: kubelet_plan
short_description: How a node's kubelet differs from what the inventory says
description:
  - Compares packages, settings and service of the kubelet with the inventory, and asks whether the machine has joined.
version_added: "0.1.0"
author: gpusmith contributors
extends_documentation_fragment: gpusmith.gpu.plan
positional: settings
options:
  settings:
    description: Keys node, packages (versions by name), settings (files that the kubelet reads at its start, content by path), config
      (what the inventory sets for it) and environment (see C(gpusmith.expect.environment)).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Plan
  ansible.builtin.debug:
    msg: "{{ record | gpusmith.gpu.kubelet_plan(settings) }}"
"""

RETURN = r"""
_value:
  description: >-
    problems (in words), cures (kinds of cure that are needed, see C(gpusmith.problems)), files (paths of the role's files that are
    missing or say something else), environment (of these files, those of the service's unit and environment, content by path).
  type: dict
"""


@of_record
def kubelet_plan(record: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """See DOCUMENTATION."""
    return plans.kubernetes_node(record, settings)


FilterModule = filter_module(kubelet_plan)
