"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: allocatable_wait
short_description: Wait until nodes offer their GPUs to the scheduler
description: Lists the cluster's nodes until each named node is Ready and its allocatable number of a resource equals the expected one.
author: gpusmith contributors
options:
  kubeconfig: {type: path, required: true, description: Path of a kubeconfig on the controller.}
  expected: {type: dict, required: true, description: "Expected number of devices, by name of the node."}
  resource: {type: str, default: nvidia.com/gpu, description: Extended resource to look at.}
  labels: {type: list, elements: str, default: [], description: "Labels that each node must also have, such as those of feature discovery."}
  timeout: {type: float, default: 300.0, description: Maximum number of seconds to wait.}
"""
