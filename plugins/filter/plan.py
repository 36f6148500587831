"""Filter: what a role has to do on a node, from the probe's record and what the inventory wants of the node."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.gpusmith.gpu.plugins.module_utils import containerd
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.filter_files import filter_module
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import plain

from gpusmith.errors import GpusmithError
from gpusmith.expect import plans
from gpusmith.wanted.read import from_plain

DOCUMENTATION = r"""
name: plan
short_description: What a role has to do on a node
description:
  - Compares a node with what the inventory wants of it, as far as it is a role's matter.
author: gpusmith contributors
positional: _input, role, wanted, own
options:
  _input: {type: dict, required: true, description: "Record of the node, as M(gpusmith.gpu.node_state) says it."}
  role: {type: str, required: true, description: Name of the role; C(nvidia_driver_removal) is what role C(nvidia_driver) takes away.}
  wanted: {type: dict, required: true, description: Record of P(gpusmith.gpu.wanted#lookup).}
  own:
    type: dict
    default: {}
    description: >-
      What the role adds to that, such as names of packages, and contents of files by path. Each plan says its keys, see
      C(gpusmith.expect.plans).
"""

RETURN = r"""
_value:
  type: dict
  description: >-
    problems (in words), cures (kinds of cure that are needed, see C(gpusmith.problems)), files (paths of the role's files that are missing or
    say something else), and what else the role's tasks go by.
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


def _with_drop_ins(record: Mapping[str, Any], role: str, own: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a role adds, with its part of containerd's configuration in the words of the node's containerd."""
    if role not in ("containerd", "nvidia_container_toolkit"):
        return own
    parts = drop_in(record, own["name"], own["runtime"], own.get("images") or {})
    key = "files" if role == "containerd" else "runtime_files"
    return {**own, key: {**parts, **hosts_files(own.get("registries") or ())}}


def plan(
    record: Mapping[str, Any], role: str, wanted: Mapping[str, Any], own: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """See DOCUMENTATION."""
    try:
        given = plain(own or {})
        return plans.plan(role, record, from_plain(wanted), _with_drop_ins(record, role, given))
    except GpusmithError as error:
        raise AnsibleFilterError(
            f"'plan' needs the record of 'gpusmith.gpu.node_state'. {error.message}"
        ) from error


FilterModule = filter_module(plan)
