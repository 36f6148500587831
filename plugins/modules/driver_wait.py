"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_wait
short_description: Wait until a node's driver is in the wanted state
description: Reads the state of the node until it matches, waiting cannot help, or the time is over.
author: gpusmith contributors
options:
  own: {type: dict, required: true, description: "Files and names of packages of role C(nvidia_driver), as its plan takes them."}
  timeout: {type: float, required: true, description: Maximum number of seconds to wait.}
  nvml_timeout: {type: float, default: 30.0, description: Seconds that the NVIDIA management library may take to answer.}
"""
