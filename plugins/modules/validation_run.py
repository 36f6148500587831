"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: validation_run
short_description: Run the validation suite
description:
  - Starts C(pytest) on the suite with the same inventory and hosts, writes all output to a log, and waits for the end.
  - Failed checks are a result, not a failure of this module. The module fails if the suite could not do its work.
  - Runs on the controller. The suite changes no Node object, so this reports no change.
version_added: "0.1.0"
author: gpusmith contributors
options:
  suite:
    description: Folder of the suite.
    type: path
    required: true
  inventory:
    description: Inventory source.
    type: str
    required: true
  limit:
    description: Hosts to validate.
    type: list
    elements: str
    required: true
  report_dir:
    description: Folder for results and reports.
    type: path
    required: true
  log:
    description: File for the output.
    type: path
    required: true
  timeout:
    description: Seconds that the suite may take.
    type: float
    default: 7200.0
attributes:
  check_mode:
    support: none
    description: Not run in check mode.
"""

EXAMPLES = r"""
- name: Validate
  gpusmith.gpu.validation_run:
    suite: /opt/gpusmith/validation
    inventory: /etc/gpusmith/inventory
    limit: [gpu-1]
    report_dir: /var/lib/gpusmith/reports
    log: /var/lib/gpusmith/reports/validation.log
"""

RETURN = r"""
status:
  description: Exit status of the suite, 0 if everything passed and 1 if checks failed.
  returned: always
  type: int
started:
  description: Unix time at which the suite was started.
  returned: always
  type: float
results_file:
  description: Path of the results.
  returned: always
  type: str
"""
