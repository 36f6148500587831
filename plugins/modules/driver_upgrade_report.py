"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_upgrade_report
short_description: Report the results of the nodes of a driver upgrade
description: Shows one table of results, the changes to make in the inventory, and the paths of journals and reports; writes C(upgrade.json).
author: gpusmith contributors
options:
  run: {type: str, required: true, description: ID of the run.}
  folder: {type: path, required: true, description: Folder of the run on the controller.}
  hosts: {type: dict, required: true, description: The plan's row of each host.}
  way_back: {type: str, default: playbooks/rollback_driver.yml, description: What brings a node back that is half done.}
  outcomes: {type: str, required: true, description: Name of the variable that has the result of M(gpusmith.gpu.driver_upgrade) on each host.}
"""
