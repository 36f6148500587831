"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: foreign_operands
short_description: Refuse a second owner of the device plugin and its companions, and a plugin that does not work with the runtime
description:
  - Lists the DaemonSets and Deployments of the cluster once, and fails if one outside of gpusmith's namespace runs a component that gpusmith is to
    manage. Device plugin and feature discovery share an image; they are told apart by the container's command.
  - If the device plugin is the cluster's own, reads how it hands out GPUs (arguments, environment, ConfigMap), and fails if the container runtime
    of the nodes does not accept that.
  - Runs on the controller.
version_added: "0.1.0"
author: gpusmith contributors
options:
  kubeconfig:
    description: Path of a kubeconfig on the controller.
    type: path
    required: true
  namespace:
    description: Namespace of gpusmith.
    type: str
    required: true
  components:
    description: >-
      Components that gpusmith is to manage, each with C(component) (nvidia-device-plugin, gpu-feature-discovery, node-feature-discovery or
      gpu-operator), C(name) and C(advice).
    type: list
    elements: dict
    required: true
  plugin_strategies:
    description: >-
      Strategies besides CDI by which the runtime accepts GPUs from a device plugin that others run (C(envvar), C(volume-mounts)). Without this
      option no plugin is checked.
    type: list
    elements: str
attributes:
  check_mode:
    support: full
    description: Changes nothing in either mode.
"""

EXAMPLES = r"""
- name: Refuse a second owner
  gpusmith.gpu.foreign_operands:
    kubeconfig: "{{ gpusmith_kubeconfig }}"
    namespace: gpusmith-system
    components:
      - component: nvidia-device-plugin
        name: device plugin
        advice: "Say that it stays with 'gpu_operands_device_plugin: existing'."
"""

RETURN = r"""
namespace_exists:
  description: Whether gpusmith's namespace already exists.
  returned: success
  type: bool
"""
