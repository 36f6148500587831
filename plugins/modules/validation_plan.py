"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: validation_plan
short_description: Report which nodes must be validated
description:
  - Compares the stamp on each Node object with the facts of the node. Asks the cluster once, however many nodes there are.
  - Runs on the controller and changes nothing.
version_added: "0.1.0"
author: gpusmith contributors
options:
  kubeconfig:
    description: Path of a kubeconfig on the controller.
    type: path
    required: true
  nodes:
    description: Name in the cluster (C(node)) and facts (C(facts)) of each inventory host, as M(gpusmith.gpu.node_state) returns them.
    type: dict
    required: true
  policy:
    description: When to validate.
    type: str
    choices: [if_needed, always, never]
    default: if_needed
attributes:
  check_mode:
    support: full
    description: Changes nothing in either mode.
"""

EXAMPLES = r"""
- name: Decide
  gpusmith.gpu.validation_plan:
    kubeconfig: "{{ gpusmith_kubeconfig }}"
    nodes: {gpu-1: {node: gpu-1, facts: "{{ state.stamp }}"}}
"""

RETURN = r"""
hosts:
  description: Hosts to validate.
  returned: always
  type: list
  elements: str
reasons:
  description: Reasons, by host.
  returned: always
  type: dict
"""
