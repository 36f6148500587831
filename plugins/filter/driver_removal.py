"""Filter: what there is of the driver on a node that is to have none, from the probe's record."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.plans import filter_module, of_record

from gpusmith.expect import removal

DOCUMENTATION = r"""
name: driver_removal
short_description: What there is of the driver on a node that is to have none
description:
  - Names packages, units and files of the driver that role C(nvidia_driver) takes away, whatever version they have.
version_added: "0.1.0"
author: gpusmith contributors
extends_documentation_fragment: gpusmith.gpu.plan
positional: settings, layouts
options:
  settings:
    description: >-
      Keys node, version, package_layout, certificate (file, of the key that signs the
      module), unit (ours, which loads the modules) and files (paths of ours).
    type: dict
    required: true
  layouts:
    description: Rows of package names by name of the layout, as the role's file of the operating system has them.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Plan
  ansible.builtin.debug:
    msg: "{{ record | gpusmith.gpu.driver_removal(settings, layouts) }}"
"""

RETURN = r"""
_value:
  description: >-
    due (whether there is anything), refused (why it stays), loaded, packages (with versions), others (with versions of their own),
    remains (of which nothing but configuration files is there), companions (packages that bring the next kernel, and were held
    for signed modules), units (that begin at boot) and files.
  type: dict
"""


@of_record
def driver_removal(
    record: Mapping[str, Any], settings: Mapping[str, Any], layouts: Mapping[str, Any]
) -> dict[str, Any]:
    """See DOCUMENTATION."""
    return removal.driver(record, settings, layouts)


FilterModule = filter_module(driver_removal)
