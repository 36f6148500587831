"""Parts that somebody else installs, by the inventory: they are there, by what runs on the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gpusmith.data.operands import EXISTING
from gpusmith.errors import Refusal
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
