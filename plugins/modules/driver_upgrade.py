"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_upgrade
short_description: Change the driver of a node that serves, or bring the previous one back
description:
  - Carries out the plan of M(gpusmith.gpu.driver_upgrade_plan) for one node, from the packages on its disk to the validated driver. Waits for
    the budget, for canaries and for the node's jobs. Runs on the controller, and modules on the node.
  - The steps, and what happens after which failure, are in C(src/gpusmith/upgrade/machine.py). The next run finishes a run that was killed at any
    point.
  - Does not fail because of the result for the node, so that M(gpusmith.gpu.driver_upgrade_report) reports the results of all nodes.
version_added: "0.1.0"
author: gpusmith contributors
options:
  order:
    description: Settings from the plan and from role gpu_upgrade, see C(roles/gpu_upgrade/vars/main.yml).
    type: dict
    required: true
  packages:
    description: Arguments of M(gpusmith.gpu.packages) for the new version.
    type: dict
    required: true
  settings:
    description: Settings of P(gpusmith.gpu.driver_plan#filter).
    type: dict
    required: true
  layouts:
    description: Names of the driver's packages, as P(gpusmith.gpu.driver_plan#filter) takes them.
    type: dict
    required: true
  build:
    description: >-
      If one node builds the modules for several, keys cache, cache_days, signing, timeout and layout, as in M(gpusmith.gpu.driver_build). Empty if
      every node builds for itself.
    type: dict
    default: {}
  nvml_timeout:
    description: Seconds that the NVIDIA management library may take to answer.
    type: float
    default: 60.0
  ready_timeout:
    description: Seconds within which the driver must be in the wanted state after it was loaded.
    type: float
    default: 600.0
attributes:
  check_mode:
    support: none
    description: In check mode only the plan is made.
"""

EXAMPLES = r"""
- name: Change the driver of the node
  gpusmith.gpu.driver_upgrade:
    order: "{{ order }}"
    packages: "{{ packages }}"
    settings: "{{ settings }}"
    layouts: "{{ layouts }}"
  register: outcome
"""

RETURN = r"""
result:
  description: Result for the node. C(upgraded), C(rolled back), C(released), C(left cordoned), C(unfinished) or C(untouched).
  returned: always
  type: str
reason:
  description: Why.
  returned: always
  type: str
"""
