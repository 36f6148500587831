"""Ansible module: wait on the node until its driver is as wanted."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_wait
short_description: Wait until a node's driver is as wanted
description:
  - Reads the state of the node until it differs in nothing from what is wanted, until the differences are such that waiting cannot
    help, or until the time is over. The NVSwitch fabric of a large machine takes minutes.
  - Never fails for what it sees; the caller judges the record.
version_added: "0.1.0"
author: gpusmith contributors
options:
  settings:
    description: Keys version, module_flavour, fabric_manager and unit, as for P(gpusmith.gpu.driver_plan#filter).
    type: dict
    required: true
  layout:
    description: Package names of the repository's layout.
    type: dict
    required: true
  models:
    description: Rows of C(data/gpus.yml).
    type: dict
    required: true
  timeout:
    description: Seconds to wait at the most.
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
    settings: {version: "580.178.04", module_flavour: auto, fabric_manager: auto, unit: load.service}
    layout: "{{ layout }}"
    models: "{{ models }}"
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

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpusmith.gpu.plugins.module_utils import driver, probe

TICK_S = 1.0


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "settings": {"type": "dict", "required": True},
            "layout": {"type": "dict", "required": True},
            "models": {"type": "dict", "required": True},
            "timeout": {"type": "float", "required": True},
            "nvml_timeout": {"type": "float", "default": 30.0},
        },
        supports_check_mode=True,
    )
    asked = module.params
    begin = time.monotonic()
    end = begin + (0.0 if module.check_mode else asked["timeout"])
    while True:
        record: dict[str, Any] = probe.collect(nvml_timeout_s=asked["nvml_timeout"])
        try:
            wanted = driver.want(record, asked["settings"], asked["layout"], asked["models"])
        except ValueError as error:
            module.fail_json(msg=str(error))
        found = driver.differences(record, wanted, str(asked["settings"].get("unit", "")))
        if not found or not driver.may_pass(found) or time.monotonic() >= end:
            break
        time.sleep(TICK_S)
    module.exit_json(
        changed=False,
        record=record,
        stamp=probe.stamp_facts(record),
        waited=round(time.monotonic() - begin, 1),
    )


if __name__ == "__main__":
    main()
