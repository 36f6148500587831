"""Filter: how a node's containerd differs from what the inventory says, from the probe's record."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.module_utils import containerd
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.plans import filter_module, of_record

from gpusmith.expect import plans

DOCUMENTATION = r"""
name: containerd_plan
short_description: How a node's containerd differs from what the inventory says
description:
  - Compares packages, files, effective configuration and service of containerd with the inventory.
version_added: "0.1.0"
author: gpusmith contributors
extends_documentation_fragment: gpusmith.gpu.plan
positional: settings
options:
  settings:
    description: >-
      Keys node, packages (versions by name), name (of the drop-in), runtime and images (its settings), registries, and environment (unit,
      drop_in, drop_in_text, file and text, see C(gpusmith.expect.environment)).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Plan
  ansible.builtin.debug:
    msg: "{{ record | gpusmith.gpu.containerd_plan(settings) }}"
"""

RETURN = r"""
_value:
  description: >-
    problems (in words), cures (kinds of cure that are needed, see C(gpusmith.problems)), files (paths of the role's files that are
    missing or say something else), environment (of these files, those of the service's environment, content by path), reload (whether systemd
    has to read the unit's files, on a machine that has not joined).
  type: dict
"""


def schema(record: Mapping[str, Any]) -> int:
    """The schema of a drop-in: that of the root file; of a file that is still to be written, the newest that containerd reads."""
    there = record.get("containerd") or {}
    return int(there.get("root_schema") or containerd.schema_of_release(str(there.get("version") or "")))


def drop_in(
    record: Mapping[str, Any], name: str, runtime: Mapping[str, Any], images: Mapping[str, Any]
) -> dict[str, str]:
    """The content of a drop-in by its path."""
    site = (record.get("containerd") or {}).get("registries") or {}
    images = containerd.beside(images, site.get("config_path"), site.get("inline"))
    return {f"/etc/containerd/conf.d/{name}.toml": containerd.drop_in(schema(record), name, runtime, images)}


def hosts_files(registries: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Where images of each registry are fetched, by the path of its file."""
    return {
        f"/etc/containerd/certs.d/{row['host']}/hosts.toml": containerd.hosts_toml(row["endpoint"])
        for row in registries
    }


@of_record
def containerd_plan(record: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """See DOCUMENTATION."""
    return plans.containerd(
        record,
        {
            **settings,
            "files": {
                **drop_in(record, settings["name"], settings["runtime"], settings.get("images") or {}),
                **hosts_files(settings.get("registries") or ()),
            },
        },
    )


FilterModule = filter_module(containerd_plan)
