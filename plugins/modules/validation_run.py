"""Ansible module: run the validation suite as a user would, with its output in a log."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: validation_run
short_description: Run the validation suite
description:
  - Starts C(pytest) on the suite with the same inventory and hosts, writes all output to a log, and waits for the end.
  - Checks that failed are an outcome and no failure of this module; a suite that could not do its work is.
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
  delegate_to: localhost
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

import contextlib
import subprocess
import sys
import time
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

TAIL_LINES = 12


def tail(path: Path) -> str:
    """The last lines of the log."""
    return "\n".join(path.read_text(encoding="utf-8", errors="replace").rstrip().splitlines()[-TAIL_LINES:])


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "suite": {"type": "path", "required": True},
            "inventory": {"type": "str", "required": True},
            "limit": {"type": "list", "elements": "str", "required": True},
            "report_dir": {"type": "path", "required": True},
            "log": {"type": "path", "required": True},
            "timeout": {"type": "float", "default": 7200.0},
        },
        supports_check_mode=False,
    )
    asked = module.params
    suite = Path(asked["suite"]).resolve()
    # Relative paths mean the checkout: for the suite, for its log and for whoever reads the results.
    log, reports = suite.parent / asked["log"], suite.parent / asked["report_dir"]
    if not suite.is_dir():
        module.fail_json(
            msg=f"The validation suite '{suite}' does not exist. Run from a checkout of gpusmith."
        )
    for folder in (log.parent, reports):
        folder.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-m", "pytest", str(suite), "--inventory", asked["inventory"]]
    words += ["--limit", ",".join(asked["limit"]), "--report-dir", str(reports)]
    started = time.time()
    status = None
    with log.open("w", encoding="utf-8") as out:
        out.write("$ " + " ".join(words) + "\n")
        out.flush()
        with contextlib.suppress(subprocess.TimeoutExpired):
            # The suite finds its configuration by its own path; the folder only decides how relative paths are read.
            status = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=suite.parent,
                timeout=asked["timeout"],
                check=False,
            ).returncode
    found = {"started": started, "results_file": str(reports / "results.json"), "status": status}
    if status is None:
        hint = f"Its log is '{log}', which ends with:\n{tail(log)}"
        module.fail_json(
            msg=f"The validation suite did not end within {asked['timeout']:.0f} s. {hint}", **found
        )
    if status not in (0, 1):
        hint = f"Its log is '{log}', which ends with:\n{tail(log)}"
        module.fail_json(msg=f"The validation suite could not do its work (status {status}). {hint}", **found)
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
