"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: operands
short_description: Apply objects that gpusmith alone owns, or delete them
description:
  - Applies objects by server-side apply with the field manager C(gpusmith), and with force. Manual changes are overwritten.
  - An apply alone leaves fields that somebody added. Therefore this module first makes C(gpusmith) their owner (I(metadata.managedFields)); the
    apply then removes fields that it does not send. This concerns DaemonSets, Deployments, RuntimeClasses, ConfigMaps and RBAC objects.
    I(metadata), I(status), fields that a subresource wrote, and the time of C(kubectl rollout restart) are left alone.
  - Reports a change only if the API server's answer differs from the previous object.
  - Refuses a RuntimeClass that has another handler before it changes anything, since a handler cannot be changed.
  - Warns of a RuntimeClass of gpusmith that is no longer among the objects, since pods may still name it.
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
      With O(state=present), manifests of objects that are deleted first if they exist and have the label C(app.kubernetes.io/managed-by=gpusmith).
    type: list
    elements: dict
    default: []
  state:
    description: Whether the objects are to exist.
    type: str
    choices: [present, absent]
    default: present
  timeout:
    description: Seconds within which deleted objects must be gone.
    type: float
    default: 300.0
attributes:
  check_mode:
    support: full
    description: >-
      Has the API server make a dry run of the changes. This is not possible for objects in a namespace that does not exist yet; they are left out.
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
  description: Objects that check mode could not try out.
  returned: success
  type: list
  elements: str
"""
