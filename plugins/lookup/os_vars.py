"""Lookup: the file of a role with what is different on the node's operating system."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase

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

FACTS = ("distribution", "distribution_major_version", "os_family")


def candidates(facts: Mapping[str, Any]) -> list[str]:
    """Names of files for a system, the closest one first."""
    distribution, major, family = (str(facts[name]).replace(" ", "_") for name in FACTS)
    names = [f"{distribution}_{major}.yml", f"{distribution}.yml", f"{family}_{major}.yml", f"{family}.yml"]
    return list(dict.fromkeys(names))


def choose(folder: Path, facts: Mapping[str, Any]) -> Path:
    """The file for a system.

    Raises:
        AnsibleError: facts are missing, or there is no file for it.
    """
    lacking = [name for name in FACTS if not facts.get(name)]
    if lacking:
        raise AnsibleError(
            f"The operating system is not known: the facts lack {', '.join(lacking)}. Look at the node first (role 'gpusmith.gpu.node_record'), or gather facts."
        )
    names = candidates(facts)
    for name in names:
        if (folder / name).is_file():
            return folder / name
    role = folder.resolve().parent.name
    there = sorted(path.name for path in folder.glob("*.yml") if path.name != "main.yml") or [
        "no file of a system"
    ]
    raise AnsibleError(
        f"Role '{role}' does not support '{facts['distribution']} {facts['distribution_major_version']}' (family '{facts['os_family']}'): "
        f"'{folder}' has {', '.join(there)}. To support it, add {' or '.join(names)}."
    )


@cache
def _content(path: Path) -> Mapping[str, Any]:
    content: Mapping[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content or {}


def value(folder: Path, facts: Mapping[str, Any], name: str) -> Any:
    """A variable for a system, from the closest file that has it: a release's file has only what differs from its family's.

    Raises:
        AnsibleError: facts are missing, there is no file for the system, or it has no such variable.
    """
    closest = choose(folder, facts)
    for path in (folder / each for each in candidates(facts)):
        if path.is_file() and name in _content(path):
            return _content(path)[name]
    raise AnsibleError(f"'{closest}' does not have '{name}', nor does a file of its distribution or family.")


class LookupModule(LookupBase):
    """See DOCUMENTATION."""

    def run(self, terms: list[str], variables: Any = None, **kwargs: Any) -> list[Any]:
        """Called by Ansible."""
        self.set_options(var_options=variables, direct=kwargs)
        facts, name = self.get_option("facts"), self.get_option("name")
        if name:
            return [value(Path(term), facts, name) for term in terms]
        return [str(choose(Path(term), facts)) for term in terms]
