"""Filter: what a node's driver should be, and how the node differs from that, from the probe's record."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.plans import filter_module, of_record

from gpusmith.expect import plans

DOCUMENTATION = r"""
name: driver_plan
short_description: What a node's driver should be, and how the node differs from that
description:
  - Compares packages, module, libraries, services, device nodes and files of the driver with the inventory.
version_added: "0.1.0"
author: gpusmith contributors
extends_documentation_fragment: gpusmith.gpu.plan
positional: settings, layouts
options:
  settings:
    description: >-
      Keys node, version, package_layout, module_build, module_flavour, fabric_manager, parameters, extra_modules, components,
      certificate (file, of the key that signs the module), chosen, unchosen, files, daemon_files, dracut_files and fabric_files (content by
      path; daemon_files only where the unit of the driver's daemon needs them, dracut_files only where dracut makes initial RAM disks,
      fabric_files only where the fabric manager reaches its switches
      through modules of the kernel) and kernel (names of its packages).
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
    msg: "{{ record | gpusmith.gpu.driver_plan(settings, layouts) }}"
"""

RETURN = r"""
_value:
  description: >-
    problems (in words), cures (kinds of cure that are needed, see C(gpusmith.problems)), files (paths of the role's files that are
    missing or say something else), refused (why the settings cannot be met), divided (GPUs in MIG mode), version, serves (it has joined
    a cluster), flavour, fabric_manager, packages, other_packages (with versions of their own), tools (of the
    operating system, that are missing), fabric_modules (that are not loaded, of those that the fabric manager needs), companions (packages that bring the next kernel, and are held with modules that come built), kernel_to_hold (those, not held
    yet, where a site's key signs the modules and the machine boots with Secure Boot), leftovers (packages that another version or the other
    kind of module left),
    counterparts (what comes for packages that a site has besides, as module packages takes it), patterns, installed (versions on the
    node), drift (packages of another version, in words), outdated (their names), release (those and modules that come built, whose
    holds go first), unheld, headers (packages of kernels that lack the module, and of those to come), unbuilt (kernels that have
    headers and no module), to_take (kernels whose module one node of several builds, where that is asked for, also those whose module
    somebody else signed), damaged (kernels whose modules are not what was taken), to_rebuild (by kernel, modules of C(nvidia_driver_extra_modules) that DKMS has to build for this
    driver), change_driver (how a serving node gets another driver, in words).
  type: dict
"""


@of_record
def driver_plan(
    record: Mapping[str, Any], settings: Mapping[str, Any], layouts: Mapping[str, Any]
) -> dict[str, Any]:
    """See DOCUMENTATION."""
    return plans.driver(record, settings, layouts)


FilterModule = filter_module(driver_plan)
