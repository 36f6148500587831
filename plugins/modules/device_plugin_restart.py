"""Documentation of the action plugin with the same name (plugins/action/device_plugin_restart.py)."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: device_plugin_restart
short_description: Restart gpusmith's device plugin on a node where its CDI specification is missing or wrong
description: Deletes the plugin's pod, and waits until the specification is as it has to be. Pods that hold GPUs keep them.
author: gpusmith contributors
options:
  kubeconfig: {type: path, required: true, description: Path of a kubeconfig on the controller.}
  record: {type: dict, required: true, description: The node's record.}
  timeout: {type: float, default: 300.0, description: Maximum number of seconds to wait.}
  nvml_timeout: {type: float, default: 30.0, description: Seconds that the NVIDIA management library may take to answer.}
"""
