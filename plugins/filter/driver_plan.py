"""Filter: what a node's driver should be and how the node differs, from the probe's record."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.gpusmith.gpu.plugins.module_utils import driver

DOCUMENTATION = r"""
name: driver_plan
short_description: What a node's driver should be, and how the node differs from that
version_added: "0.1.0"
author: gpusmith contributors
positional: settings, layout, models
options:
  _input:
    description: Record of M(gpusmith.gpu.node_state).
    type: dict
    required: true
  settings:
    description: Keys version, module_flavour, fabric_manager and unit.
    type: dict
    required: true
  layout:
    description: Package names of the repository's layout.
    type: dict
    required: true
  models:
    description: Rows of C(data/gpus.yml).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Plan
  ansible.builtin.debug:
    msg: "{{ record | gpusmith.gpu.driver_plan(settings, layout, models) }}"
"""

RETURN = r"""
_value:
  description: >-
    refused (why the settings cannot be met), version, flavour, fabric_manager, packages, other_packages, installed (versions on the
    node), drift (packages of another version, in words), outdated (their names), unheld, differences, cures (which kinds of cure are needed).
  type: dict
"""


def driver_plan(
    record: Mapping[str, Any],
    settings: Mapping[str, Any],
    layout: Mapping[str, Any],
    models: Mapping[str, Any],
) -> dict[str, Any]:
    """See DOCUMENTATION."""
    if "packages" not in record:
        raise AnsibleFilterError("'driver_plan' needs the record of 'gpusmith.gpu.node_state'.")
    try:
        wanted = driver.want(record, settings, layout, models)
    except ValueError as error:
        return {
            "refused": str(error),
            "differences": [],
            "cures": [],
            "drift": [],
            "installed": [],
            "packages": [],
        }
    found = driver.differences(record, wanted, str(settings.get("unit", "")))
    belonging = driver.driver_packages(record, wanted)
    return {
        "refused": "",
        "version": wanted.version,
        "flavour": wanted.flavour,
        "fabric_manager": bool(wanted.fabric_manager),
        "packages": wanted.packages,
        "other_packages": wanted.other_packages,
        "patterns": wanted.patterns,
        "installed": driver.installed_versions(record, wanted),
        "drift": driver.drift(record, wanted),
        "outdated": sorted(
            name for name, version in belonging.items() if not driver.is_version(version, wanted.version)
        ),
        "unheld": driver.unheld(record, wanted),
        "differences": [difference.text for difference in found],
        "cures": sorted({difference.cure for difference in found}),
    }


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """By name."""
        return {"driver_plan": driver_plan}
