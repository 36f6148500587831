"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: guard
short_description: Refuse a run that cannot do what it is meant to do
description:
  - Checks the target, the names, types and choices of variables, and the way to the cluster, before any host is touched.
  - Connection variables, labels, taints, kernel parameters and kubeconfigs are checked by the rules of the validation suite. Templates in them are
    evaluated first, unless they need facts of the host.
  - Hosts, files and folders that variables name must exist, such as the host that creates join tokens.
  - Meant for the first play of a playbook, on C(all:localhost), so that an empty inventory, or a limit without GPU nodes, does not end with success
    because there was nothing to do.
  - Runs on the controller and connects to no host of the inventory.
version_added: "0.1.0"
author: gpusmith contributors
options:
  group:
    description: Inventory group that holds the nodes to work on.
    type: str
    default: gpu_nodes
  cluster:
    description: Whether the playbook needs the cluster that C(gpusmith_kubeconfig) leads to.
    type: bool
    default: true
  needs_limit:
    description:
      - If nodes must be named with C(-l), what the playbook does to them, as the beginning of a sentence.
      - Empty if it may work on the whole group.
    type: str
    default: ""
  tags:
    description: Tags of the playbook. Others are refused, since Ansible would run nothing for them and end with success.
    type: list
    elements: str
    default: []
  join_tag:
    description: >-
      Tag of the tasks that join nodes to the cluster. If they are to run, the variables that a join needs must be set. Empty if the playbook joins
      no node.
    type: str
    default: ""
  inventory_only:
    description: Roles whose variables cannot be given with C(-e), since the playbook sets them itself and C(-e) would win.
    type: list
    elements: str
    default: []
  required:
    description: Variables without which the playbook has nothing to do.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    support: full
    description: Changes nothing in either mode.
"""

EXAMPLES = r"""
- name: Refuse what cannot work
  hosts: all:localhost
  gather_facts: false
  tasks:
    - name: Check target, variables and cluster
      gpusmith.gpu.guard:
      run_once: true
      delegate_to: localhost
"""

RETURN = r"""
nodes:
  description: Hosts of the group that the run works on.
  returned: success
  type: list
  elements: str
"""
