"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: operands
short_description: Apply objects that gpusmith alone owns, or delete them
description: Applies objects by server-side apply with the field manager C(gpusmith), and with force.
author: gpusmith contributors
options:
  kubeconfig: {type: path, required: true, description: Path of a kubeconfig on the controller.}
  objects: {type: list, elements: dict, required: true, description: Whole manifests.}
  gone: {type: list, elements: dict, default: [], description: Manifests of objects that are deleted first if they exist and are labelled as managed by gpusmith.}
  labels: {type: dict, default: {}, description: Labels of the site's on every object and on its pods.}
  pull_secrets: {type: list, elements: str, default: [], description: Names of Secrets with which its pods pull images.}
  state: {type: str, choices: [present, absent], default: present, description: Whether the objects are to exist.}
  timeout: {type: float, default: 300.0, description: Seconds within which deleted objects must be gone.}
"""
