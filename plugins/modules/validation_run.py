"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: validation_run
short_description: Run the validation suite
description: Starts C(pytest) on the suite with the same inventory and hosts, writes all output to a log, and waits for the end.
author: gpusmith contributors
options:
  suite: {type: path, required: true, description: Folder of the suite.}
  inventory: {type: str, required: true, description: Inventory source.}
  limit: {type: list, elements: str, required: true, description: Hosts to validate.}
  report_dir: {type: path, required: true, description: Folder for results and reports.}
  log: {type: path, required: true, description: File for the output.}
  timeout: {type: float, default: 7200.0, description: Seconds that the suite may take.}
"""
