"""Documentation of the action plugin with the same name (plugins/action/driver_wait.py)."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_wait
short_description: Wait until a node's driver is in the wanted state
description:
  - Reads the state of the node until it matches the wanted state, until the differences are such that waiting cannot help, or until the timeout.
    The NVSwitch fabric of a large machine takes minutes.
  - Does not fail because of what it sees; the caller judges the record.
version_added: "0.1.0"
author: gpusmith contributors
options:
  settings:
    description: Settings of P(gpusmith.gpu.driver_plan#filter).
    type: dict
    required: true
  layouts:
    description: Names of the driver's packages, as P(gpusmith.gpu.driver_plan#filter) takes them.
    type: dict
    required: true
  timeout:
    description: Maximum number of seconds to wait.
    type: float
    required: true
  nvml_timeout:
    description: Seconds that the NVIDIA management library may take to answer.
    type: float
    default: 30.0
attributes:
  check_mode:
    support: full
    description: Looks once and does not wait.
"""

EXAMPLES = r"""
- name: Wait for the driver
  gpusmith.gpu.driver_wait:
    settings: {node: gpu-1, version: "580.178.04", module_flavour: auto, fabric_manager: auto}
    layouts: "{{ layouts }}"
    timeout: 600
"""

RETURN = r"""
record:
  description: The record that was read last, schema C(gpusmith.probe/1).
  returned: always
  type: dict
stamp:
  description: As M(gpusmith.gpu.node_state) returns it.
  returned: always
  type: dict
waited:
  description: Seconds.
  returned: always
  type: float
"""
