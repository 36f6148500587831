"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: validation_plan
short_description: Report which nodes must be validated
description:
  - Compares the stamp on each Node object with the facts of the node.
  - Where the stamp holds and the node is not validated again, it puts the condition on the Node that is asked for, or takes off one that is not.
author: gpusmith contributors
options:
  kubeconfig: {type: path, required: true, description: Path of a kubeconfig on the controller.}
  nodes: {type: dict, required: true, description: "Of each inventory host its name in the cluster (node), its facts (facts), and whether it
    gets the condition (condition)."}
  policy: {type: str, choices: [if_needed, always, never], default: if_needed, description: When to validate.}
"""
