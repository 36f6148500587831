"""Lookup: the file of a role with what is different on the node's operating system."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase

from gpusmith.data import systems

DOCUMENTATION = r"""
name: os_vars
short_description: The file of a role with what is different on the node's operating system, or a variable of it
description:
  - The first one that exists in the folder of C(DISTRIBUTION_MAJOR.yml), C(DISTRIBUTION.yml), C(FAMILY_MAJOR.yml) and C(FAMILY.yml),
    for example C(Rocky_9.yml), C(Rocky.yml), C(RedHat_9.yml), C(RedHat.yml).
  - Files with other names, such as C(main.yml), are not looked at.
author: gpusmith contributors
options:
  _terms: {required: true, description: "The folder, C(vars) of the role."}
  facts: {type: dict, required: true, description: "The node's facts; keys distribution, distribution_major_version and os_family."}
  name:
    type: str
    description: >-
      A variable, whose value is the answer then instead of the path. It is plain data, without templates, and comes from the first of these
      files that has it, so that the file of a release has only what differs from that of its family.
"""

RETURN = r"""
_raw: {type: list, elements: raw, description: "Path of the file, or value of the variable."}
"""


class LookupModule(LookupBase):
    """See DOCUMENTATION."""

    def run(self, terms: list[str], variables: Any = None, **kwargs: Any) -> list[Any]:
        """Called by Ansible."""
        self.set_options(var_options=variables, direct=kwargs)
        facts, name = self.get_option("facts"), self.get_option("name")
        try:
            if name:
                return [systems.value(Path(term), facts, name) for term in terms]
            return [str(systems.choose(Path(term), facts)) for term in terms]
        except systems.UnknownSystem as error:
            raise AnsibleError(str(error)) from error
