"""Filter: whether module packages would change a node, from the probe's record."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import base
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.filter_files import filter_module
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.packages_due import is_due
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import plain

DOCUMENTATION = r"""
name: packages_due
short_description: Whether module packages would change a node
description:
  - Does the work of M(gpusmith.gpu.packages) in check mode over a record instead of a machine. A node whose repository, pins,
    versions and holds are right needs no task.
author: gpusmith contributors
positional: asked
options:
  _input: {type: dict, required: true, description: Record of M(gpusmith.gpu.node_state).}
  asked: {type: dict, required: true, description: Arguments of M(gpusmith.gpu.packages); none where the packages are somebody else's.}
"""

RETURN = r"""
_value: {type: bool, description: "Whether anything is to be done. That is so for a repository that cannot be used, too, of which the module says why."}
"""


def packages_due(record: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    """See DOCUMENTATION."""
    if "packages" not in record:
        raise AnsibleFilterError("'packages_due' needs the record of 'gpusmith.gpu.node_state'.")
    if not asked:
        return False
    try:
        due: bool = is_due(plain(record), plain(asked))
    except base.PackageError:
        return True
    return due


FilterModule = filter_module(packages_due)
