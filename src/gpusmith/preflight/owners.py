"""Parts that somebody else installs, by the inventory: they are there, by what runs on the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gpusmith.data.operands import DEVICE_PLUGIN, EXISTING
from gpusmith.errors import Refusal
from gpusmith.expect.containerd import is_nvidia_runtime
from gpusmith.preflight.words import Facts, Tables, Wanted, refusal

Lack = Callable[[Mapping[str, Any]], str]


def _runs(raw: Mapping[str, Any], unit: str) -> str:
    active = ((raw.get("programs") or {}).get(unit) or {}).get("active", "not there")
    return "" if active == "active" else f"unit '{unit}.service' is {active}"


def _kubelet(raw: Mapping[str, Any]) -> str:
    return _runs(raw, "kubelet") or (
        "" if raw["kubernetes"]["joined"] else "the machine has not joined a cluster"
    )


def _runtime(raw: Mapping[str, Any]) -> str:
    found = raw["containerd"]["effective"].get("runtime_nvidia")
    return "" if found else "containerd's effective configuration has no runtime 'nvidia'"


def _driver(raw: Mapping[str, Any]) -> str:
    return "" if raw["module"].get("loaded_version") else "no module 'nvidia' is loaded"


LACKS: Mapping[str, Lack] = {
    "nvidia_driver": _driver,
    "containerd": lambda raw: _runs(raw, "containerd"),
    "nvidia_container_toolkit": _runtime,
    "kubernetes_node": _kubelet,
}
"""By role, why the part of somebody else is not there; empty if it is."""


def check_owners(facts: Facts, wanted: Wanted, _tables: Tables) -> Iterator[Refusal]:
    """What is 'existing' exists: site.yml brings none of it, and all later steps stand on it."""
    for role, lack in LACKS.items():
        if wanted.node.manages(role) or (wanted.no_driver and role == "nvidia_driver"):
            continue
        if why := lack(facts["record"]):
            yield refusal(
                f"owner of role '{role}'",
                f"'{role}_owner' is '{EXISTING}', and {why}",
                "a part that somebody else has set up, and that works",
                f"Have it set up by whoever does that for this machine, or set '{role}_owner: managed'.",
            )
    if wanted.no_driver and not wanted.node.manages("nvidia_driver"):
        yield refusal(
            "owner of role 'nvidia_driver'",
            f"'nvidia_driver_state' is 'absent', and 'nvidia_driver_owner' is '{EXISTING}'",
            "a driver that gpusmith has installed",
            "Remove the driver with the tool that brought it, or correct one of the two.",
        )


def check_runtime_of_others(facts: Facts, wanted: Wanted, _tables: Tables) -> Iterator[Refusal]:
    """What nobody of us changes in the configuration of somebody else's containerd is as GPUs need it.

    Role nvidia_container_toolkit would restart containerd of a node that serves, find that, and take its change back.
    """
    node, seen = wanted.node, facts["record"]["containerd"]["effective"]
    runtime = seen.get("runtime_nvidia")
    if wanted.no_driver or node.manages("containerd") or runtime is None:
        return
    if not node.manages("nvidia_container_toolkit"):
        if DEVICE_PLUGIN in node.operands.ours and not seen.get("cdi"):
            yield _setting(
                "has CDI switched off, and our device plugin hands out GPUs by CDI alone",
                "'enable_cdi = true'",
                "keep a plugin of the cluster's: 'gpu_operands_device_plugin: existing'",
            )
        return
    # Of a runtime 'nvidia' that is there already the role sets it.
    if not runtime and seen.get("systemd_cgroup") is False:
        yield _setting(
            "does not use systemd's cgroups", "'SystemdCgroup = true'", "leave the machine out with -l"
        )
    name, binary = str(seen.get("default_runtime") or ""), str(seen.get("default_binary") or "")
    if (name == "nvidia" or is_nvidia_runtime(binary)) and not node.toolkit.default_runtime:
        yield _setting(
            f"has '{name}' for every pod",
            "another 'default_runtime_name'",
            "set 'nvidia_container_toolkit_default_runtime: true'",
        )


def _setting(found: str, allowed: str, instead: str) -> Refusal:
    return refusal(
        "containerd of somebody else",
        f"its effective configuration {found}",
        allowed,
        f"Have its owner set that ('containerd_owner' is '{EXISTING}'); or {instead}.",
    )
