"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: node_removal
short_description: Drain a node, or delete its Node object and its remaining pods
description: C(state=empty) cordons a node and evicts its pods, as their disruption budgets allow.
author: gpusmith contributors
options:
  kubeconfig: {type: path, required: true, description: Path of a kubeconfig on the controller.}
  name: {type: str, required: true, description: Name of the Node object.}
  state: {type: str, choices: [removable, empty, released, absent], required: true, description: Wanted state.}
  timeout: {type: float, default: 300.0, description: Seconds within which the pods must be gone.}
"""
