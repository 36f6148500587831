"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: node_metadata
short_description: Set labels and taints of nodes as the inventory says
description: Waits until the nodes are Ready, with one list call for all of them, then changes only what differs.
author: gpusmith contributors
options:
  kubeconfig: {type: path, required: true, description: Path of a kubeconfig on the controller.}
  nodes: {type: dict, required: true, description: "By name of the node, its labels (dict), taints (list of key, value and effect), startup_taint (key), and whether it is adopted, so that taints which it has stay its own."}
  ready_timeout: {type: float, default: 300.0, description: Seconds until all of the nodes must be Ready.}
"""
