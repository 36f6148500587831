"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: node_stamp
short_description: Stamp a node that passed a complete validation
description: Reads the results of the validation suite.
author: gpusmith contributors
options:
  kubeconfig: {type: path, required: true, description: Path of a kubeconfig on the controller.}
  node: {type: str, required: true, description: Name of the Node object.}
  host: {type: str, required: true, description: "Name of the node in the inventory, which the results use."}
  results: {type: path, required: true, description: Path of C(results.json) on the controller.}
  not_before: {type: float, default: 0.0, description: Unix time at which the suite was started.}
  condition: {type: bool, default: false, description: Whether the Node says the outcome in condition C(gpusmith.io/Validated) as well.}
  facts: {type: dict, required: true, description: "The facts that the stamp is for, as M(gpusmith.gpu.node_state) returns them."}
"""
