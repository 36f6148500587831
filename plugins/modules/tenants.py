"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: tenants
short_description: Namespaces, quotas and members of teams, and the policy for their pods
description:
  - Makes each team's namespace, its quotas and the RoleBinding of its members, and the PriorityClasses of the cluster.
  - Refuses to take over namespaces and PriorityClasses that gpusmith did not make, before anything is changed.
  - Deletes quotas and bindings of teams that are no longer given. Their namespaces, and PriorityClasses, stay and are named.
  - Has the API server refuse pods that reach GPUs without asking for them, after it has judged pods of known outcome, and copies of those that run.
  - Refuses to delete those of all teams unless it is asked to, since an inventory may lack a file.
author: gpusmith contributors
options:
  kubeconfig: {type: path, required: true, description: Path of a kubeconfig on the controller.}
  teams: {type: dict, default: {}, description: As C(gpu_tenants_teams).}
  classes: {type: dict, default: {}, description: As C(gpu_tenants_classes).}
  offered: {type: list, elements: str, default: [], description: Resources that nodes of the inventory hand out.}
  policy: {type: str, choices: [none, warn, deny], default: none, description: As C(gpu_tenants_policy).}
  exempt: {type: list, elements: str, default: [], description: Namespaces whose pods the policy does not judge.}
  state: {type: str, choices: [present, absent, proved], default: present, description: "C(absent) takes all teams away, whichever are given. C(proved) changes nothing, and fails if the API server, asked by dry run, admits a pod with a GPU more than a team has left."}
  timeout: {type: float, default: 60.0, description: Seconds within which deleted objects must be gone.}
"""

RETURN = r"""
objects: {type: list, elements: str, returned: success, description: "What was changed or deleted, in words."}
"""
