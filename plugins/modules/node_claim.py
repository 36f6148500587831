"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: node_claim
short_description: Refuse a run on wrong machines, or on nodes that another run works on
description:
  - Judges for all hosts of the play whether the machine at a host's address is the one whose Node the inventory means, by the node name of its
    kubelet, by machine ID and by boot ID. It reads the record that role C(node_record) made of each host.
  - Then it claims the nodes for this run of ansible-playbook, including those that have not joined. If another run works on one of them, this run
    is refused and the other one is named. The claims are stored in ConfigMap C(kube-system/gpusmith-runs).
  - A separate process keeps the claim, and releases it when ansible-playbook and the tasks that it started have ended, in whatever way. A dead run
    does not block other runs; a dead run of another machine stops blocking them after 45 seconds without a sign of life.
  - If another run took the claim in the meantime, for example while this run's machine was asleep, this run is ended as by Ctrl-C as soon as the
    process that keeps the claim notices it. A task that runs on a node at that moment may continue there for a while.
  - A node whose driver upgrade is not finished is refused, and the error says how to finish it.
  - Call it once in a play, before any change. Runs on the controller.
version_added: "0.1.0"
author: gpusmith contributors
options:
  kubeconfig:
    description: Path of a kubeconfig on the controller. Without one, hosts are compared with each other only, and nothing is claimed.
    type: path
    default: ""
  preflight:
    description: Name of the variable that holds the result of M(gpusmith.gpu.preflight) on each host, to be reported and judged in one table.
    type: str
    default: ""
  bad_host:
    description: >-
      What to do when preflight refuses a host. C(exclude_host) claims the nodes of the others. A wrong machine refuses the run in
      any case.
    type: str
    choices: [refuse_all, exclude_host]
    default: refuse_all
attributes:
  check_mode:
    support: full
    description: Judges, and claims nothing.
"""

EXAMPLES = r"""
- name: Refuse wrong machines, and claim the nodes for this run
  gpusmith.gpu.node_claim:
    kubeconfig: "{{ gpusmith_kubeconfig }}"
  run_once: true
"""

RETURN = r"""
cordoned:
  description: Nodes of the run that accept no pods.
  returned: success
  type: list
  elements: str
refused:
  description: Problems of hosts of the run, and the note that the others go on, in lines by host.
  returned: always
  type: dict
verdict:
  description: Text that callback P(gpusmith.gpu.verdict#callback) prints at the end of the run, by host.
  returned: if nodes are cordoned, with C(preflight)
  type: dict
"""
