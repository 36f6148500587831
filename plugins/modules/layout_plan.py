"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: layout_plan
short_description: Plan a layout change, refuse what cannot work, and claim the nodes for it
description: Shows order, waves, nodes that are left out, pods that hold GPUs and the budget; writes C(plan.json); claims the nodes.
author: gpusmith contributors
options:
  kubeconfig: {type: path, required: true, description: Path of a kubeconfig on the controller.}
  max_unavailable: {type: str, default: "", description: "GPUs of one model that may be out of service at a time, number or C(N%)."}
  canary: {type: int, default: 1, description: Number of nodes that must have been changed before others are started.}
  soak: {type: float, default: 300.0, description: Seconds that the last of these must have served since its change.}
  max_failures: {type: int, default: 1, description: Number of failed nodes at which no further node is started.}
  report_dir: {type: path, required: true, description: Folder on the controller; each run gets a folder of its own in it.}
"""
