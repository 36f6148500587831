"""Lookup: what the inventory wants of a node, typed, with all defaults and templates filled in."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import json
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import OfHost

from gpusmith.errors import InputError, Refusal
from gpusmith.inventory import specs
from gpusmith.wanted import read
from gpusmith.wanted.node import NodeWanted

DOCUMENTATION = r"""
name: wanted
short_description: What the inventory wants of a node
description:
  - Reads the declared variables of a host by their specs, and returns one record with a section for each role. Roles, preflight, upgrade and
    validation suite all go by this record.
author: gpusmith contributors
options:
  _terms: {description: "Hosts of the inventory. Without any, the host of the task, with the variables that the task gives."}
  refusals: {type: bool, default: false, description: "For a controller that reads the output: what is wrong with a host is returned instead of an error (C(name) and C(refusals)), and all as JSON texts."}
"""

RETURN = r"""
_raw: {type: list, elements: dict, description: "For each host, the record C(NodeWanted) of C(gpusmith.wanted.node) as plain data."}
"""


class LookupModule(LookupBase):
    """See DOCUMENTATION."""

    def run(self, terms: list[str], variables: Any = None, **kwargs: Any) -> list[dict[str, Any] | str]:
        """Called by Ansible."""
        self.set_options(var_options=variables, direct=kwargs)
        hosts = {host: OfHost.named(host, variables, self._loader) for host in map(str, terms)} or {
            str(variables["inventory_hostname"]): OfHost(variables, self._templar)
        }
        known = specs.load()
        if self.get_option("refusals"):
            # Texts, since Ansible copies data value by value, three times; with thousands of hosts that is what takes long.
            # Beside the variables, where they come from: a site's own checks are there.
            return [
                json.dumps(
                    {
                        **_row(host, read.judged(host, values, known)),
                        "inventory_dir": values.written("inventory_dir"),
                    }
                )
                for host, values in hosts.items()
            ]
        try:
            return [read.to_plain(read.read(host, values, known)) for host, values in hosts.items()]
        except InputError as error:
            raise AnsibleError(str(error)) from error


def _row(host: str, found: NodeWanted | list[Refusal]) -> dict[str, Any]:
    if isinstance(found, NodeWanted):
        return read.to_plain(found)
    return {"name": host, "refusals": [[refusal.message, refusal.hint] for refusal in found]}
