"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_version
short_description: Choose one exact version of the driver for all nodes that get one
description: Hosts that ask for the same branch, or for the latest version, get the newest one that all of them can have.
author: gpusmith contributors
options:
  offers: {type: str, required: true, description: Name of the variable that has the result of M(gpusmith.gpu.driver_offers) on each host.}
"""
