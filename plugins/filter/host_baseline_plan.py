"""Filter: how a node differs from what role host_baseline promises, from the probe's record."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
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
    What differs: files (paths), modules and sysctl (names), all of it and swap in words with the wanted and the seen (problems), of these
    what no run changes (boot), and what to look at (hints).
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
    "boot": (
        "The role changes no files of others: correct or remove those lines on the node, or make them the inventory's"
        " 'host_baseline_modules' and 'host_baseline_sysctl'."
    ),
    "files": "Look for who else writes the file, such as another configuration management.",
}


def one_space(value: object) -> str:
    """A value as text: the kernel divides numbers by tabs, people by blanks."""
    return " ".join(str(value).split())


def swap_problems(record: Mapping[str, Any]) -> list[str]:
    """Swap that is on, or that the next boot turns on."""
    system = record["system"] or {}
    areas, fstab = system.get("swap_areas"), system.get("swap_fstab") or []
    found = []
    if areas is None:
        found.append("swap: wanted off, seen nothing, since '/proc/swaps' cannot be read")
    elif areas:
        found.append(f"swap: wanted off, seen on {', '.join(map(repr, areas))}")
    if fstab:
        found.append(f"swap in '/etc/fstab': wanted none, seen {', '.join(map(repr, fstab))}")
    found += [
        f"swap at boot: wanted off, seen '{link}'"
        for link in (record.get("boot") or {}).get("swap_units") or ()
    ]
    if system.get("swap_target_masked") is False:
        found.append("'swap.target': wanted masked, seen unmasked")
    return found


def boot_problems(record: Mapping[str, Any], modules: Iterable[str], sysctl: Mapping[str, str]) -> list[str]:
    """What boots would do otherwise although the role's files are there: files of others win over them."""
    boot = record.get("boot")
    if not boot:
        return ["next boot: wanted as the inventory says, seen nothing, since its files cannot be read"]
    found = []
    for name in modules:
        row = boot["modules"].get(name) or {}
        if row.get("forbidden_by") or not row.get("file"):
            seen = f"forbidden by '{row['forbidden_by']}'" if row.get("forbidden_by") else "nothing"
            found.append(f"kernel module '{name}' at boot: wanted loaded, seen {seen}")
    for name, value in sysctl.items():
        row = boot["sysctl"].get(name) or {}
        if row.get("value") != value:
            seen = "nothing" if row.get("value") is None else f"'{row['value']}'"
            files = "".join(f" in '{path}'" for path in row.get("files") or ())
            found.append(f"kernel parameter '{name}' at boot: wanted '{value}', seen {seen}{files}")
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
        "swap": swap_problems(record) if settings["swap"] != "keep" else [],
        "modules": [f"kernel module '{name}': wanted loaded, seen not loaded" for name in modules],
        "sysctl": [
            f"kernel parameter '{name}': wanted '{wanted[name]}', seen "
            + ("nothing" if shown.get(name) is None else f"'{shown[name]}'")
            for name in sysctl
        ],
        # Before its files are there, nobody can tell who wins over them.
        "boot": [] if files else boot_problems(record, settings["modules"], wanted),
        "files": [
            f"file '{path}': wanted as the inventory says, seen {'another content' if path in digests else 'missing'}"
            for path in files
        ],
    }
    return {
        "files": files,
        "modules": modules,
        "sysctl": sysctl,
        "boot": problems["boot"],
        "problems": [text for texts in problems.values() for text in texts],
        "hints": [HINTS[kind] for kind, texts in problems.items() if texts],
    }


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """By name."""
        return {"host_baseline_plan": host_baseline_plan}
