"""Filter: how a node's container toolkit differs from what the inventory says, from the probe's record."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.filter.containerd_plan import drop_in
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.plans import of_record

from gpusmith.expect import plans

DOCUMENTATION = r"""
name: toolkit_plan
short_description: How a node's container toolkit differs from what the inventory says
version_added: "0.1.0"
author: gpusmith contributors
positional: settings
options:
  _input:
    description: Record of M(gpusmith.gpu.node_state).
    type: dict
    required: true
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


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """By name."""
        return {"toolkit_plan": toolkit_plan}
