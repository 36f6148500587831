"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_upgrade
short_description: Give a node that serves another driver, or bring it back
description:
  - Carries out the plan of M(gpusmith.gpu.driver_upgrade_plan) for one node, from the packages on its disk to the validated driver. Waits for
    the budget, for canaries and for the node's jobs. Runs on the controller, and modules on the node.
  - The steps, and what happens after which failure, are in C(src/gpusmith/upgrade/machine.py). A run that was killed anywhere is finished by the
    next one.
  - Never fails for what becomes of the node, so that M(gpusmith.gpu.driver_upgrade_report) tells it for all nodes.
version_added: "0.1.0"
author: gpusmith contributors
options:
  order:
    description: What the plan and role gpu_upgrade say, see C(roles/gpu_upgrade/vars/main.yml).
    type: dict
    required: true
  packages:
    description: Arguments of M(gpusmith.gpu.packages) for the version that is to come.
    type: dict
    required: true
  settings:
    description: Those of P(gpusmith.gpu.driver_plan#filter).
    type: dict
    required: true
  layouts:
    description: Names of the driver's packages, as P(gpusmith.gpu.driver_plan#filter) takes them.
    type: dict
    required: true
  build:
    description: >-
      Where one node builds the modules for several, keys cache, cache_days, signing, timeout and layout, as M(gpusmith.gpu.driver_build) takes
      them; empty where every node builds for itself.
    type: dict
    default: {}
  nvml_timeout:
    description: Seconds that the NVIDIA management library may take to answer.
    type: float
    default: 60.0
  ready_timeout:
    description: Seconds until the driver must be as wanted after it was loaded.
    type: float
    default: 600.0
attributes:
  check_mode:
    support: none
    description: In check mode the plan is all that there is.
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
  description: What became of the node. C(upgraded), C(rolled back), C(released), C(left cordoned), C(unfinished) or C(untouched).
  returned: always
  type: str
reason:
  description: Why.
  returned: always
  type: str
"""
