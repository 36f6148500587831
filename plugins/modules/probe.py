"""Ansible module: runs the probe that the controller sends."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: probe
short_description: Run the probe on a GPU node
description:
  - The part of M(gpusmith.gpu.node_state) and M(gpusmith.gpu.driver_wait) that runs on the node. Use those modules instead.
author: gpusmith contributors
options:
  nvml_timeout: {type: float, default: 30.0, description: Seconds that the NVIDIA management library may take to answer.}
  bundle: {type: str, default: "", description: The probe's code; set by the action plugins.}
"""

RETURN = r"""
record: {type: dict, returned: always, description: "The record, schema C(gpusmith.probe/1)."}
"""

import json

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpusmith.gpu.plugins.module_utils import bundle


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={"nvml_timeout": {"type": "float", "default": 30.0}, "bundle": bundle.OPTION},
        supports_check_mode=True,
    )
    bundle.take(module)
    from gpusmith.probe.collect import as_json, collect

    record = json.loads(as_json(collect(nvml_timeout_s=module.params["nvml_timeout"])))
    module.exit_json(changed=False, record=record)


if __name__ == "__main__":
    main()
