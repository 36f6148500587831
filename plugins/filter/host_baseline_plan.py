"""Filter: how a node differs from what Kubernetes needs of a host, from the probe's record."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.plans import filter_module, of_record

from gpusmith.expect import plans

DOCUMENTATION = r"""
name: host_baseline_plan
short_description: How a node differs from what Kubernetes needs of a host
description:
  - Compares swap, kernel modules and kernel parameters, now and at the next boot, with the inventory.
version_added: "0.1.0"
author: gpusmith contributors
extends_documentation_fragment: gpusmith.gpu.plan
positional: settings
options:
  settings:
    description: >-
      Keys node, swap (C(off) or C(keep)), modules (names), sysctl (values by name), sysctl_minimum (least values by name), files
      (content by path), sysctl_file (path and first line of the file that the plan makes of both), needrestart (when, path and content
      of a file for that program) and authorities (certificates by name).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Plan
  ansible.builtin.debug:
    msg: "{{ record | gpusmith.gpu.host_baseline_plan(settings) }}"
"""

RETURN = r"""
_value:
  description: >-
    problems (in words), cures (kinds of cure that are needed, see C(gpusmith.problems)), files (paths of the role's files that are
    missing or say something else), contents (of these files), modules (names that are to be loaded now), sysctl (values that are to be
    set now, by name), swap (whether it is turned off), huge_pages (numbers that are to be set now, by size),
    leaving (what the
    files name and the inventory does not any more), trust_outdated (whether the trust store is to be made anew), units (of systemd that boots do not start), boot (of the problems, those that no run changes), hints (what to look at).
  type: dict
"""


@of_record
def host_baseline_plan(record: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """See DOCUMENTATION."""
    return plans.host_baseline(record, settings)


FilterModule = filter_module(host_baseline_plan)
