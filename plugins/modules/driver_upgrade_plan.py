"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_upgrade_plan
short_description: Plan a driver upgrade, refuse what cannot work, and claim the nodes for it
description: Shows order, waves, skipped nodes, users of GPUs and the budget; writes C(plan.json); claims the nodes.
author: gpusmith contributors
options:
  kubeconfig: {type: path, required: true, description: Path of a kubeconfig on the controller.}
  back: {type: bool, default: false, description: Whether nodes go back to the driver that they had before.}
  version: {type: str, default: "", description: The driver that nodes get.}
  max_unavailable: {type: str, default: "", description: "GPUs of one model that may be out of service at a time, number or C(N%)."}
  canary: {type: int, default: 1, description: Number of nodes that must have been upgraded before others are started.}
  soak: {type: float, default: 300.0, description: Seconds that the last of these must have served since its upgrade.}
  max_failures: {type: int, default: 1, description: Number of failed nodes at which no further node is started.}
  reboot: {type: str, choices: [never, if_needed], default: never, description: Whether a node may be rebooted if its modules cannot be unloaded.}
  requires_group: {type: str, default: "", description: Group whose nodes must have served with the version before; empty for none.}
  requires_hours: {type: float, default: 24.0, description: For how many hours they must have served.}
  report_dir: {type: path, required: true, description: Folder on the controller; each run gets a folder of its own in it.}
"""
