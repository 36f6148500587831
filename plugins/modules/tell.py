"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: tell
short_description: Add something about the host to the verdict at the end of the run
description:
  - The callback C(gpusmith.gpu.verdict) prints it, once for all hosts that it concerns.
  - An action plugin does the same with key C(verdict) of its result, by host, also for hosts other than its own.
version_added: "0.1.0"
author: gpusmith contributors
options:
  role:
    description: Role whose plan is given.
    type: str
    choices: [host_baseline, nvidia_driver, cuda_toolkit, containerd, nvidia_container_toolkit, kubernetes_node]
  plan:
    description: Plan of the role, from which the module derives what the role would change.
    type: dict
  changes:
    description: Changes that would be made, by kind.
    type: dict
    default: {}
    suboptions:
      packages: {description: Packages., type: list, elements: str, default: []}
      dependencies: {description: Packages that come along., type: list, elements: str, default: []}
      files: {description: Paths., type: list, elements: str, default: []}
      units: {description: Units of systemd., type: list, elements: str, default: []}
      modules: {description: Kernel modules., type: list, elements: str, default: []}
      parameters: {description: Kernel parameters., type: list, elements: str, default: []}
      commands: {description: Commands., type: list, elements: str, default: []}
      labels: {description: Labels of the Node., type: list, elements: str, default: []}
      taints: {description: Taints of the Node., type: list, elements: str, default: []}
      objects: {description: Objects of the cluster., type: list, elements: str, default: []}
      more: {description: Anything else., type: list, elements: str, default: []}
  unpredictable:
    description: What only a run can tell, such as whether a check of kubeadm lets the machine join.
    type: list
    elements: str
    default: []
  notes:
    description: Notes for the person at the end of the run, whether or not anything changed.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    support: full
    description: Changes nothing in either mode.
"""

EXAMPLES = r"""
- name: Tell what would change
  gpusmith.gpu.tell:
    role: containerd
    plan: "{{ plan }}"
  when: ansible_check_mode

- name: Tell that something is left
  gpusmith.gpu.tell:
    notes: ["the kubelet is 1.36.2, the inventory wants 1.36.3"]
"""

RETURN = r"""
verdict:
  description: Text added to the verdict, by host.
  returned: always
  type: dict
"""
