"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: layout_change
short_description: Change how the GPUs of a node that serves are handed out, or bring the former layout back
description: Carries out the plan of M(gpusmith.gpu.layout_plan) for one node, from the cordon to the validated layout.
author: gpusmith contributors
options:
  order: {type: dict, required: true, description: "Settings of the plan and of role gpu_upgrade (C(roles/gpu_upgrade/vars/main.yml))."}
  record: {type: dict, required: true, description: The last look at the machine.}
"""
