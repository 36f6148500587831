"""Filter: how a node's container toolkit differs from what the inventory says, from the probe's record."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.filter.containerd_plan import drop_in
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.plans import filter_module, of_record

from gpusmith.expect import plans

DOCUMENTATION = r"""
name: toolkit_plan
short_description: How a node's container toolkit differs from what the inventory says
description:
  - Compares packages, files, runtime, CDI specification, device links and unit of the container toolkit with the inventory.
version_added: "0.1.0"
author: gpusmith contributors
extends_documentation_fragment: gpusmith.gpu.plan
positional: settings
options:
  settings:
    description: Keys node, packages (versions by name), default_runtime, cdi_spec, files (content by path), name (of the drop-in of containerd)
      and runtime (its settings).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Plan
  ansible.builtin.debug:
    msg: "{{ record | gpusmith.gpu.toolkit_plan(settings) }}"
"""

RETURN = r"""
_value:
  description: >-
    problems (in words), cures (kinds of cure that are needed, see C(gpusmith.problems)), files (paths of the role's files that are
    missing or say something else), start_unit (whether the role's unit has to be started).
  type: dict
"""


@of_record
def toolkit_plan(record: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """See DOCUMENTATION."""
    return plans.container_toolkit(
        record, {**settings, "runtime_files": drop_in(record, settings["name"], settings["runtime"], {})}
    )


FilterModule = filter_module(toolkit_plan)
