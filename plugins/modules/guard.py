"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: guard
short_description: Refuse a run that cannot do what it is meant to do
description: Checks the target, the names, types and choices of variables, and the way to the cluster, before any host is touched.
author: gpusmith contributors
options:
  group: {type: str, default: gpu_nodes, description: Inventory group that holds the nodes to work on.}
  cluster: {type: bool, default: true, description: Whether the playbook needs the cluster that C(gpusmith_kubeconfig) leads to.}
  needs_limit: {type: str, default: "", description: "If nodes must be named with C(-l), what the playbook does to them, as the beginning of a sentence."}
  tags: {type: list, elements: str, default: [], description: Tags of the playbook.}
  join_tag: {type: str, default: "", description: Tag of the tasks that join nodes to the cluster.}
  cluster_tags: {type: list, elements: str, default: [], description: Tags of the tasks that change objects of the whole cluster.}
  inventory_only: {type: list, elements: str, default: [], description: Roles whose variables cannot be given with C(-e).}
  required: {type: list, elements: str, default: [], description: Variables without which the playbook has nothing to do.}
"""
