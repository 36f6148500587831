"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: allocatable_wait
short_description: Wait until nodes offer their GPUs to the scheduler
description:
  - Lists the cluster's nodes until each named node is Ready and its allocatable number of a resource equals the expected one. One list call covers
    all nodes, however many there are.
  - Runs on the controller. Does not fail for a node that is not ready in time; it returns what was seen last, and the caller decides.
version_added: "0.1.0"
author: gpusmith contributors
options:
  kubeconfig:
    description: Path of a kubeconfig on the controller.
    type: path
    required: true
  expected:
    description: Expected number of devices, by name of the node.
    type: dict
    required: true
  resource:
    description: Extended resource to look at.
    type: str
    default: nvidia.com/gpu
  labels:
    description: Labels that each node must also have, such as those of feature discovery.
    type: list
    elements: str
    default: []
  timeout:
    description: Maximum number of seconds to wait.
    type: float
    default: 300.0
attributes:
  check_mode:
    support: full
    description: Looks once and does not wait.
"""

EXAMPLES = r"""
- name: Wait for the GPUs
  gpusmith.gpu.allocatable_wait:
    kubeconfig: "{{ gpusmith_kubeconfig }}"
    expected: {gpu-1: 8}
"""

RETURN = r"""
nodes:
  description: What was seen last, by name of the node.
  returned: always
  type: dict
  sample: {"gpu-1": {"ready": true, "allocatable": 8, "reached": true, "seen": "Ready with 8 of 8 nvidia.com/gpu"}}
"""
