"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: tell
short_description: Add something about the host to the verdict at the end of the run
description: The callback C(gpusmith.gpu.verdict) prints it, once for all hosts that it concerns.
author: gpusmith contributors
options:
  role: {type: str, choices: [host_baseline, nvidia_driver, cuda_toolkit, containerd, nvidia_container_toolkit, kubernetes_node], description: Role whose plan is given.}
  plan: {type: dict, description: "Plan of the role, from which the module derives what the role would change."}
  changes:
    type: dict
    default: {}
    description: Changes that would be made, by kind.
    suboptions:
      packages: {type: list, elements: str, default: [], description: Packages and what becomes of them.}
      more: {type: list, elements: str, default: [], description: Anything else.}
  unpredictable: {type: list, elements: str, default: [], description: What only a run can tell.}
  notes: {type: list, elements: str, default: [], description: "Notes for the person at the end of the run, whether or not anything changed."}
"""
