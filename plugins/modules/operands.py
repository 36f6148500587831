"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: operands
short_description: Make objects that are ours alone what we say, or delete them
description:
  - Applies objects on the server's side with the field manager C(gpusmith), and with force. A change by hand gives way.
  - An apply alone leaves fields that somebody added. So this makes C(gpusmith) their owner first (I(metadata.managedFields)); the apply takes
    away what it does not send. That concerns DaemonSets, Deployments, RuntimeClasses, ConfigMaps and RBAC objects. I(metadata), I(status), what a
    subresource wrote, and the time of C(kubectl rollout restart) are left alone.
  - Reports a change only if the API server's answer differs from what was there.
  - Refuses a RuntimeClass that has another handler before it changes anything, since nobody can change that.
  - Warns of a RuntimeClass of ours that is not among the objects any more, since pods may still name it.
  - Runs on the controller.
version_added: "0.1.0"
author: gpusmith contributors
options:
  kubeconfig:
    description: Path of a kubeconfig on the controller.
    type: path
    required: true
  objects:
    description: Whole manifests. They are applied, or deleted, in this order.
    type: list
    elements: dict
    required: true
  gone:
    description: >-
      With O(state=present), manifests of objects that are deleted first if they are there and have the label
      C(app.kubernetes.io/managed-by=gpusmith).
    type: list
    elements: dict
    default: []
  state:
    description: Whether the objects are to be there.
    type: str
    choices: [present, absent]
    default: present
  timeout:
    description: Seconds until objects that are deleted must be gone.
    type: float
    default: 300.0
attributes:
  check_mode:
    support: full
    description: Has the API server try the changes out. It cannot for objects in a namespace that does not exist yet; they are left out.
"""

EXAMPLES = r"""
- name: Apply the operands
  gpusmith.gpu.operands:
    kubeconfig: "{{ gpusmith_kubeconfig }}"
    objects: "{{ query('ansible.builtin.template', 'device-plugin.yml.j2') | map('from_yaml_all') | flatten }}"
"""

RETURN = r"""
foreign:
  description: By object, the fields that others set.
  returned: success
  type: dict
  sample: {"DaemonSet 'gpusmith-system/nvidia-device-plugin'": ["spec.template.spec.containers[nvidia-device-plugin].env[NAME]"]}
objects:
  description: What was changed or deleted.
  returned: success
  type: list
  elements: str
left_out:
  description: What check mode could not try out.
  returned: success
  type: list
  elements: str
"""
