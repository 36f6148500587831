"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: monitoring_wait
short_description: Wait until the monitoring runs and Prometheus gets values
description: Waits for the pods of workloads, and then for the targets of Prometheus, which it asks through the API server. In check mode it does not wait.
author: gpusmith contributors
options:
  kubeconfig: {type: path, required: true, description: Path of a kubeconfig on the controller.}
  objects: {type: list, elements: dict, required: true, description: Manifests of what was applied.}
  namespace: {type: str, default: "", description: Namespace of Prometheus; empty if it is not gpusmith's.}
  jobs: {type: list, elements: str, default: [], description: Jobs of Prometheus of which a target is to answer.}
  nodes: {type: list, elements: str, default: [], description: Nodes whose dcgm-exporter is to answer.}
  notes: {type: list, elements: str, default: [], description: What a person is to know at the end of the run.}
  timeout: {type: float, default: 300.0, description: Seconds for all of it.}
"""

RETURN = r"""
missing: {type: str, returned: success, description: "What all nodes need and is still missing; empty if nothing is."}
late: {type: dict, returned: success, description: "By node, what is still missing of it alone."}
"""
