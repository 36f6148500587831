"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: node_claim
short_description: Refuse a run on wrong machines, or on nodes that another run works on
description: Compares each host's kubelet, machine ID and boot ID with its Node, and reserves the nodes for this run.
author: gpusmith contributors
options:
  kubeconfig: {type: path, default: "", description: Path of a kubeconfig on the controller.}
  preflight: {type: str, default: "", description: Name of the variable that has the result of M(gpusmith.gpu.preflight) on each host.}
  bad_host: {type: str, choices: [refuse_all, exclude_host], default: refuse_all, description: What to do when preflight refuses a host.}
"""
