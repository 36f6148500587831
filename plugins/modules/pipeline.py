"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: pipeline
short_description: A step of the example pipeline
description:
  - Makes the objects of a step, waits until it is done, and says what it told. Shows meanwhile what it sees.
author: gpusmith contributors
options:
  kubeconfig: {type: path, required: true, description: Path of a kubeconfig on the controller.}
  step:
    type: str
    required: true
    choices: [refuse, preprocess, train, inference, predict, remove]
    description:
      - C(refuse) changes nothing; C(preprocess) also takes away what an earlier run left, and makes what all steps need.
      - C(remove) takes everything away.
  namespace: {type: str, required: true, description: As C(gpu_pipeline_namespace).}
  image: {type: str, required: true, description: Of all pods.}
  storage_class: {type: str, default: "", description: As C(gpu_pipeline_storage_class).}
  node_port: {type: int, required: true, description: As C(gpu_pipeline_node_port).}
  train_s: {type: int, required: true, description: As C(gpu_pipeline_train_s).}
  simulated: {type: bool, default: false, description: Whether the GPUs are simulated, by the inventory.}
  tolerations: {type: list, elements: dict, default: [], description: As C(gpu_pipeline_cpu_tolerations).}
  pull_secrets: {type: list, elements: str, default: [], description: Names of Secrets with which images are pulled.}
  timeout: {type: int, required: true, description: Seconds for one step.}
  prometheus: {type: str, default: "", description: Namespace of a managed Prometheus; empty if there is none.}
  interval_s: {type: int, default: 30, description: Seconds between two of its values.}
"""

RETURN = r"""
objects: {type: list, elements: str, returned: success, description: "What was made or deleted, in words."}
"""
