"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_upgrade_report
short_description: Report the results of the nodes of a driver upgrade
description:
  - Shows one table of results, the changes to make in the inventory, and the paths of journals and reports; writes C(upgrade.json).
  - Call it once in a play, after M(gpusmith.gpu.driver_upgrade).
version_added: "0.1.0"
author: gpusmith contributors
options:
  run:
    description: ID of the run.
    type: str
    required: true
  folder:
    description: Folder of the run on the controller.
    type: path
    required: true
  hosts:
    description: The plan's row of each host.
    type: dict
    required: true
  outcomes:
    description: Name of the variable that has the result of M(gpusmith.gpu.driver_upgrade) on each host.
    type: str
    required: true
attributes:
  check_mode:
    support: full
    description: Changes nothing in either mode.
"""

EXAMPLES = r"""
- name: Report
  gpusmith.gpu.driver_upgrade_report:
    run: "{{ plan.run }}"
    folder: "{{ plan.folder }}"
    hosts: "{{ plan.hosts }}"
    outcomes: outcome
  register: report
  run_once: true
"""

RETURN = r"""
left:
  description: Hosts that did not reach the intended state, with the reason and what to do.
  returned: success
  type: dict
results_file:
  description: Path of upgrade.json.
  returned: success
  type: str
"""
