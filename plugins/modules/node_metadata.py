"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: node_metadata
short_description: Set labels and taints of nodes as the inventory says
description:
  - Waits until the nodes are Ready, with one list call for all of them, then changes only what differs.
  - Does not fail for a node that is missing, not Ready in time, or whose change is refused. It reports this in the node's I(problem) and changes
    the others; the caller judges.
  - Labels are set by server-side apply with the field manager C(gpusmith), so that a label that was removed from the inventory is removed from the
    node, and labels of others stay.
  - The keys of gpusmith's taints are stored in the annotation C(gpusmith.io/owned-taints); taints of others stay.
  - Runs on the controller.
version_added: "0.1.0"
author: gpusmith contributors
options:
  kubeconfig:
    description: Path of a kubeconfig on the controller.
    type: path
    required: true
  nodes:
    description: >-
      By name of the node, its labels (dict), taints (list of key, value and effect), and startup_taint, the key of a taint that a node that has
      just joined must have even if its Node object is an old one. This also removes the old object's validation stamp.
    type: dict
    required: true
  ready_timeout:
    description: Seconds until all of the nodes must be Ready.
    type: float
    default: 300.0
attributes:
  check_mode:
    support: full
    description: Reports what would be patched, and does not wait.
"""

EXAMPLES = r"""
- name: Label and taint
  gpusmith.gpu.node_metadata:
    kubeconfig: "{{ gpusmith_kubeconfig }}"
    nodes:
      gpu-1:
        labels: {gpu-type: h100-sxm}
        taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]
"""

RETURN = r"""
nodes:
  description: By node name, whether the node exists and is Ready, what was patched, and the problem (empty if there was none).
  returned: always
  type: dict
  sample: {"gpu-1": {"present": true, "ready": true, "patched": ["labels"], "seen": "Ready", "problem": ""}}
"""
