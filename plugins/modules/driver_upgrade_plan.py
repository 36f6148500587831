"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_upgrade_plan
short_description: Plan a driver upgrade, refuse what cannot work, and claim the nodes for it
description:
  - Shows order, waves, nodes that are left out, pods and processes that use GPUs, and the budget, and writes these to C(plan.json).
  - Names all problems of all hosts in one table, and refuses the run because of them.
  - Then claims the nodes, and the budget, for this run, as M(gpusmith.gpu.node_claim) does.
  - Reads what role C(node_record), M(gpusmith.gpu.preflight) and M(gpusmith.gpu.driver_state) returned for each host. Call it once in a play.
version_added: "0.1.0"
author: gpusmith contributors
options:
  kubeconfig:
    description: Path of a kubeconfig on the controller.
    type: path
    required: true
  back:
    description: Whether nodes go back to the driver that they had before.
    type: bool
    default: false
  version:
    description: The driver that nodes get. Ignored with C(back).
    type: str
    default: ""
  max_unavailable:
    description: GPUs of one model that may be out of service at the same time, a number or C(N%); empty for the number of GPUs of the largest node.
    type: str
    default: ""
  canary:
    description: Number of nodes that must have been upgraded before others are started.
    type: int
    default: 1
  soak:
    description: Seconds that the last of these must have served since its upgrade.
    type: float
    default: 300.0
  max_failures:
    description: Number of failed nodes at which no further node is started.
    type: int
    default: 1
  reboot:
    description: Whether a node may be rebooted if its modules cannot be unloaded although nobody uses them.
    type: str
    choices: [never, if_needed]
    default: never
  requires_group:
    description: Group whose nodes must have served with the version before; empty for none.
    type: str
    default: ""
  requires_hours:
    description: For how many hours they must have served.
    type: float
    default: 24.0
  report_dir:
    description: Folder on the controller; each run gets a folder of its own in it.
    type: path
    required: true
attributes:
  check_mode:
    support: full
    description: Shows the plan, and claims nothing.
"""

EXAMPLES = r"""
- name: Plan
  gpusmith.gpu.driver_upgrade_plan:
    kubeconfig: "{{ gpusmith_kubeconfig }}"
    version: "580.178.04"
    report_dir: reports/upgrade
  register: plan
  run_once: true
"""

RETURN = r"""
run:
  description: ID of the run.
  returned: success
  type: str
folder:
  description: Folder of the run on the controller.
  returned: success
  type: str
hosts:
  description: The plan's row of each host.
  returned: success
  type: dict
queue:
  description: Nodes that are to be changed, in order.
  returned: success
  type: list
  elements: str
queued_hosts:
  description: Their hosts.
  returned: success
  type: list
  elements: str
members:
  description: Nodes of the inventory, with the GPUs that it says.
  returned: success
  type: dict
"""
