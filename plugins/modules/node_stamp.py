"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: node_stamp
short_description: Stamp a node that passed a complete validation
description:
  - Reads the results of the validation suite. If every check of the node passed in a complete run, writes the stamp to the Node object and removes
    the startup taint.
  - If nothing is wrong, but GPUs could not be tested because jobs hold them, a current stamp stays.
  - Otherwise removes an older stamp and fails with the cause and the next step of each failed check. A startup taint stays.
  - Runs on the controller.
version_added: "0.1.0"
author: gpusmith contributors
options:
  kubeconfig:
    description: Path of a kubeconfig on the controller.
    type: path
    required: true
  node:
    description: Name of the Node object.
    type: str
    required: true
  host:
    description: Name of the node in the inventory, which the results use.
    type: str
    required: true
  results:
    description: Path of C(results.json) on the controller.
    type: path
    required: true
  not_before:
    description: Unix time at which the suite was started. Older results are refused, since they are of another run.
    type: float
    default: 0.0
  facts:
    description: The facts that the stamp is for, as M(gpusmith.gpu.node_state) returns them.
    type: dict
    required: true
attributes:
  check_mode:
    support: full
    description: Asks the API server for a dry run of the change.
"""

EXAMPLES = r"""
- name: Stamp
  gpusmith.gpu.node_stamp:
    kubeconfig: "{{ gpusmith_kubeconfig }}"
    node: gpu-1
    host: gpu-1
    results: reports/latest/results.json
    facts: "{{ state.stamp }}"
"""

RETURN = r"""
stamp:
  description: The annotation's value.
  returned: success
  type: str
untainted:
  description: Whether the startup taint was removed.
  returned: success
  type: bool
"""
