#!/usr/bin/python
"""Documentation of the action plugin of the same name, which does the work on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_version
short_description: Choose one exact version of the driver for all nodes that get one
description:
  - All hosts of the play that ask for the same branch, or for the latest version, get the newest version that each of them can have. The packages
    of one version can differ between operating systems.
  - If they have no version in common, no host gets one, and each is told what the others are offered. The module does not fail because of that.
  - Prints the requested version and the exact version that was chosen.
version_added: "0.1.0"
author: gpusmith contributors
options:
  offers:
    description: Name of the variable that has the result of M(gpusmith.gpu.driver_offers) on each host.
    type: str
    required: true
attributes:
  check_mode:
    support: full
    description: Changes nothing in either mode.
"""

EXAMPLES = r"""
- name: Choose the newest one that all of them can have
  gpusmith.gpu.driver_version:
    offers: nvidia_driver_offers
  register: nvidia_driver_choice
  run_once: true
"""

RETURN = r"""
hosts:
  description: By host, version (empty if there is none) and refusal (why, with keys message and hint).
  returned: always
  type: dict
"""
