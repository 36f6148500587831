"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: node_state
short_description: Report the state of a GPU node
description: Gathers all facts about GPUs, driver, runtime, kubelet and host in one round trip, without changing anything.
author: gpusmith contributors
options:
  nvml_timeout: {type: float, default: 30.0, description: Seconds that the NVIDIA management library may take to answer.}
"""
