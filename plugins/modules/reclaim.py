"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: reclaim
short_description: Take GPUs back from pods that do not use them
description:
  - Asks Prometheus which pods hold GPUs that nobody used in a window, in namespaces with the label C(gpusmith.io/reclaim=allowed).
  - Marks the Deployment, StatefulSet, ReplicaSet or Job that made them and tells its people by an Event. A later run scales it to 0, or
    suspends it, if its pods were idle all the time since.
  - Changes nothing of what it does not know for sure, and says why.
author: gpusmith contributors
options:
  kubeconfig: {type: path, required: true, description: Path of a kubeconfig on the controller.}
  prometheus: {type: str, required: true, choices: [managed, existing, none], description: Who runs Prometheus.}
  prometheus_url: {type: str, default: "", description: Address of an existing Prometheus.}
  namespace: {type: str, required: true, description: Namespace of a managed Prometheus.}
  idle_min: {type: int, required: true, description: As C(gpu_reclaim_idle_min).}
  grace_min: {type: int, required: true, description: As C(gpu_reclaim_grace_min).}
  max_pods: {type: int, required: true, description: As C(gpu_reclaim_max_pods).}
  jobs: {type: bool, required: true, description: As C(gpu_reclaim_jobs).}
  dest: {type: path, required: true, description: Path of the report on the controller.}
"""

RETURN = r"""
decisions: {type: list, elements: dict, returned: success, description: "What was done about each owner, and why."}
"""
