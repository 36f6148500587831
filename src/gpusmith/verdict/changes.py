"""What one task changed, or would change, by kind and in words, from the result that Ansible has of it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Result = Mapping[str, Any]

TELLS = "verdict"
"""Key of a result by which a task tells the verdict more: by host, `changes`, `unpredictable` and `notes`."""

KINDS = (
    "packages",
    "dependencies",
    "files",
    "units",
    "modules",
    "parameters",
    "commands",
    "labels",
    "taints",
    "objects",
    "more",
)
"""What changes are about, in the order in which they are told."""


UNKNOWN_DEPENDENCIES = "which packages come along as dependencies: the node has no list of the repository yet"


@dataclass
class Told:
    """What is said of one host.

    Attributes:
        changes: by kind, each once.
        unpredictable: what only a run can tell.
        notes: what a person should know at the end, whether or not anything changed.
    """

    changes: dict[str, dict[str, None]] = field(default_factory=dict)
    unpredictable: dict[str, None] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)

    def add(
        self,
        changes: Mapping[str, Iterable[str]] | None = None,
        unpredictable: Iterable[str] = (),
        notes: Iterable[str] = (),
    ) -> None:
        """Say more."""
        for kind, items in (changes or {}).items():
            for item in items:
                self.changes.setdefault(kind, {})[str(item)] = None
        self.unpredictable.update(dict.fromkeys(map(str, unpredictable)))
        self.notes.update(dict.fromkeys(map(str, notes)))


def of_task(action: str, result: Result) -> Told:
    """What the result of a task on one host says by itself; each item of a loop counts.

    Args:
        action: name of the module.
        result: of the task.
    """
    told = Told()
    module = action.rpartition(".")[2]
    read = READERS.get(module, _nothing)
    if module == "preflight":
        read(result, told)
        return told
    for item in result.get("results") or [result]:
        if isinstance(item, Mapping) and (item.get("changed") or _would_have_run(item)):
            read(item, told)
    return told


def _nothing(result: Result, told: Told) -> None:
    """A module of which only the role's plan knows what it changes."""


def _would_have_run(result: Result) -> bool:
    """Check mode leaves commands out, and says so."""
    return str(result.get("msg") or "").startswith("Command would have run")


def _asked(result: Result) -> Mapping[str, Any]:
    """The module's arguments, as the module was given them."""
    return (result.get("invocation") or {}).get("module_args") or {}


def _packages(result: Result, told: Told) -> None:
    if _asked(result).get("state") == "fetched":
        told.add({"files": [str(_asked(result).get("folder"))]})
        return
    plan: Mapping[str, Any] = result.get("plan") or {}
    installed: Mapping[str, Any] = plan.get("installed") or {}
    rows: Mapping[str, Mapping[str, Any]] = result.get("packages") or {}
    loose = _asked(result).get("unversioned") or []
    named = []
    for name, row in rows.items():
        before, after = row.get("before"), installed.get(name) or row.get("after")
        if before == after and not (before is None and name in loose):
            continue
        if before and after is None:
            named.append(f"{name} {before} is removed")
        else:
            named.append(f"{name} {before} -> {after}" if before else f"{name} {after or '(as offered)'}")
    along = [text for text in _along(plan) if text.split()[0] not in rows]
    files = _headers(result)
    told.add({"packages": named, "dependencies": along, "files": files})
    if named and not plan and _asked(result).get("state") != "absent":
        told.add(unpredictable=[UNKNOWN_DEPENDENCIES])
    if not (named or along or files):
        told.add({"more": ["packages are held, or released"]})


def _simulation(result: Result, told: Told) -> None:
    """What preflight saw that installing everything together would do; it changes nothing itself."""
    plan = (result.get("simulation") or {}).get("plan") or {}
    told.add({"dependencies": _along(plan)})


def _along(plan: Mapping[str, Any]) -> list[str]:
    """What a package manager would do, package by package."""
    found = [f"{name} {version}" for name, version in (plan.get("installed") or {}).items()]
    found += [f"{name} {pair[0]} -> {pair[1]}" for name, pair in (plan.get("changed") or {}).items()]
    return found + [f"{name} {version} is removed" for name, version in (plan.get("removed") or {}).items()]


def _headers(result: Result) -> list[str]:
    rows = result.get("diff") or []
    return [str(row["after_header"]) for row in rows if isinstance(row, Mapping) and row.get("after_header")]


def _files(result: Result, told: Told) -> None:
    path = result.get("dest") or result.get("path")
    # Check mode's result does not say that it is a folder.
    if path and "directory" not in (result.get("state"), _asked(result).get("state")):
        told.add({"files": [str(path)]})


def _configuration(result: Result, told: Told) -> None:
    told.add({"files": _headers(result), "units": ["containerd.service"] if result.get("restarted") else []})


def _units(result: Result, told: Told) -> None:
    name = str(result.get("name") or "")
    told.add({"units": [name if "." in name else f"{name}.service"] if name else []})


def _commands(result: Result, told: Told) -> None:
    words = result.get("cmd") or []
    told.add(
        {"commands": [words if isinstance(words, str) else shlex.join(map(str, words))] if words else []}
    )


def _objects(result: Result, told: Told) -> None:
    names = [*(result.get("objects") or []), *(result.get("foreign") or {}), *(result.get("left_out") or [])]
    told.add({"objects": map(str, names)})


def _swap(result: Result, told: Told) -> None:  # noqa: ARG001 - one signature for all
    told.add({"more": ["swap is turned off, now and at boot"]})


def _partitions(result: Result, told: Told) -> None:
    told.add({"files": _headers(result), "more": result.get("done") or []})


READERS: Mapping[str, Callable[[Result, Told], None]] = {
    "preflight": _simulation,
    "packages": _packages,
    "copy": _files,
    "template": _files,
    "file": _files,
    "containerd_config": _configuration,
    "systemd_service": _units,
    "command": _commands,
    "operands": _objects,
    "device_plugin_restart": _objects,
    "swap_off": _swap,
    "gpu_partitions": _partitions,
}
"""By the module's short name."""
