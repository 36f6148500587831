"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: allocatable_wait
short_description: Wait until nodes offer their GPUs to the scheduler
description:
  - Lists the cluster's nodes until each is Ready and its allocatable resources are what the inventory wants it to offer.
  - Does not wait for a node with more of them, if the last look at it (C(node_record_now)) shows GPUs that the inventory leaves out and the device
    plugin offers. What to do then is in key C(next_step) of the node.
author: gpusmith contributors
options:
  kubeconfig: {type: path, required: true, description: Path of a kubeconfig on the controller.}
  hosts: {type: list, elements: str, required: true, description: Hosts of the inventory whose nodes are meant.}
  labels: {type: list, elements: str, default: [], description: "Labels that each node must also have, such as those of feature discovery."}
  namespace: {type: str, default: "", description: "Namespace of operands; if a node is late, what keeps them is in the result, in key C(operands)."}
  timeout: {type: float, default: 300.0, description: Maximum number of seconds to wait.}
"""
