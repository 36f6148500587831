"""Filter: how a node differs from what role host_baseline promises, from the probe's record."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

DOCUMENTATION = r"""
name: host_baseline_plan
short_description: How a node differs from what Kubernetes needs of a host
version_added: "0.1.0"
author: gpusmith contributors
positional: settings
options:
  _input:
    description: Record of M(gpusmith.gpu.node_state).
    type: dict
    required: true
  settings:
    description: Keys swap (C(off) or C(keep)), modules (names), sysctl (values by name) and files (list of path and content).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Plan
  ansible.builtin.debug:
    msg: "{{ record | gpusmith.gpu.host_baseline_plan(settings) }}"
"""

RETURN = r"""
_value:
  description: >-
    What differs: files (paths), modules and sysctl (names), all of it and swap in words with the wanted and the seen (problems), and what
    to look at (hints).
  type: dict
"""

HINTS = {
    "swap": (
        "If swap has to stay, set 'host_baseline_swap: keep' and tell the kubelet with 'failSwapOn: false';"
        " else look at 'swapon --show' and 'systemctl list-units --type swap' on the node."
    ),
    "modules": (
        "Look at 'modprobe NAME' and 'lsmod' on the node; 'host_baseline_modules' needs the names that 'lsmod' shows, no aliases."
    ),
    "sysctl": (
        "Look at 'sysctl NAME' and 'systemd-analyze cat-config sysctl.d' on the node for who sets another value;"
        " 'host_baseline_sysctl' can only have parameters and values that its kernel takes."
    ),
    "files": "Look for who else writes the file, such as another configuration management.",
}


def one_space(value: object) -> str:
    """A value as text: the kernel divides numbers by tabs, people by blanks."""
    return " ".join(str(value).split())


def swap_problems(system: Mapping[str, Any]) -> list[str]:
    """Swap that is on, or that the next boot turns on."""
    areas, fstab = system.get("swap_areas"), system.get("swap_fstab") or []
    found = []
    if areas is None:
        found.append("swap: wanted off, seen nothing, since '/proc/swaps' cannot be read")
    elif areas:
        found.append(f"swap: wanted off, seen on {', '.join(map(repr, areas))}")
    if fstab:
        found.append(f"swap in '/etc/fstab': wanted none, seen {', '.join(map(repr, fstab))}")
    if system.get("swap_target_masked") is False:
        found.append("'swap.target': wanted masked, seen unmasked")
    return found


def host_baseline_plan(record: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, list[str]]:
    """See DOCUMENTATION."""
    if "system" not in record:
        raise AnsibleFilterError("'host_baseline_plan' needs the record of 'gpusmith.gpu.node_state'.")
    system = record["system"] or {}
    loaded, shown = system.get("modules") or {}, system.get("sysctl") or {}
    digests = record.get("managed_files") or {}

    modules = [name for name in settings["modules"] if not loaded.get(name)]
    wanted = {name: one_space(value) for name, value in settings["sysctl"].items()}
    sysctl = [name for name, value in wanted.items() if shown.get(name) != value]
    files = [
        row["path"]
        for row in settings["files"]
        if digests.get(row["path"]) != hashlib.sha256(row["content"].encode()).hexdigest()
    ]
    problems = {
        # Unquoted, YAML takes 'off' for false.
        "swap": swap_problems(system) if settings["swap"] != "keep" else [],
        "modules": [f"kernel module '{name}': wanted loaded, seen not loaded" for name in modules],
        "sysctl": [
            f"kernel parameter '{name}': wanted '{wanted[name]}', seen "
            + ("nothing" if shown.get(name) is None else f"'{shown[name]}'")
            for name in sysctl
        ],
        "files": [
            f"file '{path}': wanted as the inventory says, seen {'another content' if path in digests else 'missing'}"
            for path in files
        ],
    }
    return {
        "files": files,
        "modules": modules,
        "sysctl": sysctl,
        "problems": [text for texts in problems.values() for text in texts],
        "hints": [HINTS[kind] for kind, texts in problems.items() if texts],
    }


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """By name."""
        return {"host_baseline_plan": host_baseline_plan}
