"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_hours
short_description: Say how many GPU hours each namespace has held
description:
  - Adds up what Prometheus keeps of which pod had which GPU, and how busy that was. Changes nothing in the cluster.
author: gpusmith contributors
options:
  kubeconfig: {type: path, required: true, description: Path of a kubeconfig on the controller.}
  prometheus: {type: str, required: true, choices: [managed, existing, none], description: Who runs Prometheus.}
  prometheus_url: {type: str, default: "", description: Address of an existing Prometheus.}
  namespace: {type: str, required: true, description: Namespace of a managed Prometheus.}
  days: {type: int, required: true, description: How many days to look back.}
  dest: {type: path, required: true, description: Path of the table on the controller.}
"""

RETURN = "{}"
