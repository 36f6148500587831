"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: node_removal
short_description: Drain a node, or delete its Node object and its remaining pods
description:
  - C(state=empty) cordons a node and evicts its pods, as their disruption budgets allow. Pods of DaemonSets and the kubelet's own stay. Data in
    emptyDir volumes is lost.
  - Refuses while pods hold GPUs or parts of GPUs, and names these pods; also while there are pods that no controller would recreate. The node is
    not cordoned then. It checks again after the cordon, and removes the cordon if such a pod arrived in between.
  - C(state=empty) needs the claim of this run on the node (M(gpusmith.gpu.node_claim)), and refuses if another run has taken it.
  - C(state=removable) only refuses, for the same reasons, and changes nothing.
  - C(state=absent) deletes the Node object, and then its remaining pods, since the machine has already left the cluster. A node that joins under
    the same name does not find any of them.
  - Runs on the controller.
version_added: "0.1.0"
author: gpusmith contributors
options:
  kubeconfig:
    description: Path of a kubeconfig on the controller.
    type: path
    required: true
  name:
    description: Name of the Node object.
    type: str
    required: true
  state:
    description: Wanted state.
    type: str
    choices: [removable, empty, absent]
    required: true
  timeout:
    description: Seconds within which the pods must be gone.
    type: float
    default: 300.0
attributes:
  check_mode:
    support: full
    description: Refuses as without check mode, and reports what would be evicted.
"""

EXAMPLES = r"""
- name: Empty the node
  gpusmith.gpu.node_removal:
    kubeconfig: "{{ gpusmith_kubeconfig }}"
    name: gpu-1
    state: empty
"""

RETURN = r"""
present:
  description: Whether the cluster has the node.
  returned: success, with C(state=empty) or C(state=removable)
  type: bool
cordoned:
  description: Whether this module cordoned the node.
  returned: success, with C(state=empty)
  type: bool
evicted:
  description: Pods that were removed, as namespace/name.
  returned: success, with C(state=empty)
  type: list
  elements: str
"""
