#!/usr/bin/python
"""Ansible module: what a repository offers of packages. Its action plugin makes versions of the driver of that."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_offers
short_description: Find the versions of the driver that a node could have
description:
  - Asks the driver's repository, in a temporary folder and with its signature checked, for the packages that the node needs, of each branch that
    the requested version may mean.
  - On the controller, versions are left out if a package is missing, or if the node's GPUs or kernels do not support them.
  - Does not fail because of its findings; it returns the reason why there is no version.
author: gpusmith contributors
options:
  repository: {type: dict, required: true, description: As for M(gpusmith.gpu.packages).}
  record: {type: dict, required: true, description: "Record of the node, as M(gpusmith.gpu.node_state) returns it. It stays on the controller."}
  packages: {type: list, elements: str, default: [], description: Names to ask for; set by the action plugin.}
"""

RETURN = r"""
offer:
  {type: dict, returned: always, description: "Keys asked, versions (newest first) and refusal (the reason why there are none, with keys message and hint)."}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpusmith.gpu.plugins.module_utils import packages
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import base
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.repositories import repository_of

OWNER = "nvidia-driver"


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "repository": {"type": "dict", "required": True},
            "record": {"type": "dict", "required": True},
            "packages": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    try:
        given = repository_of(module.params["repository"], "nvidia_driver")
        with packages.backend().aside({OWNER: given}) as beside:
            offered, error = beside.offered(module.params["packages"]), None
    except base.PackageError as problem:
        offered, error = {}, str(problem)
    module.exit_json(changed=False, offered=offered, error=error)


if __name__ == "__main__":
    main()
