"""Lookup: how the GPU nodes of the inventory hand their GPUs out, as far as that needs operands of its own."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import Variables

from gpusmith.errors import InputError
from gpusmith.inventory.target import GPU_GROUP
from gpusmith.wanted.layouts import in_use

DOCUMENTATION = r"""
name: layouts
short_description: Layouts of GPUs that nodes of the inventory have
description:
  - Each way in which GPU nodes of the inventory divide their GPUs, once. All of them count, also those that a limit leaves out, since the operands of
    a layout serve the whole cluster.
author: gpusmith contributors
options:
  _terms: {description: None are needed.}
"""

RETURN = r"""
_raw: {type: list, elements: dict, description: "For each layout its C(label), the number of C(shares) of a GPU, the C(resource) that pods ask for, the device plugin's C(strategy) for MIG, and the C(sharing) of the inventory."}
"""


class LookupModule(LookupBase):
    """See DOCUMENTATION."""

    def run(self, _terms: list[str], variables: Any = None, **kwargs: Any) -> list[dict[str, Any]]:
        """Called by Ansible."""
        self.set_options(var_options=variables, direct=kwargs)
        of = Variables(variables["hostvars"], self._loader)
        try:
            found = in_use(map(of.layout, variables["groups"].get(GPU_GROUP, [])))
        except InputError as error:
            raise AnsibleError(str(error)) from error
        names = ("label", "shares", "resource", "strategy", "sharing")
        return [{name: getattr(row, name) for name in names} for row in found]
