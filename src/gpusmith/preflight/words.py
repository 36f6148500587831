"""What the checks of preflight share: their input, offered versions, and the form of a refusal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpusmith.data.compatibility import Compatibility
from gpusmith.data.models import Model, joined
from gpusmith.errors import Refusal
from gpusmith.expect import gpus
from gpusmith.expect.versions import numbers
from gpusmith.node.records import load
from gpusmith.probe.nvml import Nvml
from gpusmith.probe.pci import Pci
from gpusmith.probe.record import SCHEMA, Record
from gpusmith.wanted.node import NodeWanted

Facts = Mapping[str, Any]

NEAREST = 3


@dataclass(frozen=True)
class Wanted:
    """What a run is to make of a host.

    Attributes:
        node: what the inventory wants of it, with the exact version of the driver where anybody can tell.
        driver_only: whether the driver of a joined node changes, and nothing else.
        joins: whether machines that have not joined do so in this run.
        driver_variable: what asks for the driver's version.
    """

    node: NodeWanted
    driver_only: bool = False
    joins: bool = True
    driver_variable: str = "nvidia_driver_version"

    @property
    def no_driver(self) -> bool:
        """Whether the machine is to have no driver, and be no GPU node."""
        return self.node.driver.state == "absent" and not self.driver_only


@dataclass(frozen=True)
class Tables:
    """What is known of GPU models and of versions.

    Attributes:
        models: those of data/gpus.yml.
    """

    models: Mapping[str, Model]
    versions: Compatibility

    def rows(self, node: NodeWanted) -> Mapping[str, Model]:
        """All models that may be in a machine: the inventory has its own."""
        return joined(self.models, node.gpu_models, node.gpu_model)


def models_of(facts: Facts, wanted: Wanted, tables: Tables) -> list[Model]:
    """Models of the machine's GPUs; the inventory's where PCI shows none, or nobody looked."""
    raw = facts.get("record") or {}
    seen = Record(SCHEMA, pci=load(Pci, raw.get("pci") or {}), nvml=load(Nvml, raw.get("nvml") or {}))
    rows = tables.rows(wanted.node)
    declared = rows.get(wanted.node.gpu_model)
    return gpus.of(seen, rows) or ([declared] if declared else [])


def section(record: Mapping[str, Any], name: str) -> Any:
    """A part of the record that the probe could read: what it could not is no reason to go on.

    Raises:
        KeyError: it could not; `judge` refuses the host.
    """
    found = record[name]
    if found is None:
        raise KeyError(name)
    return found


def refusal(check: str, found: str, allowed: str, next_step: str) -> Refusal:
    """One reason to refuse a host."""
    return Refusal(f"{check}: {found}; allowed: {allowed}.", next_step)


def nearest(versions: Iterable[str], wanted: str) -> list[str]:
    """The versions with the smallest distance to the wanted one, the best first."""
    goal = numbers(wanted)

    def distance(version: str) -> list[int]:
        parts = numbers(version)
        width = max(len(parts), len(goal))
        return [
            abs(a - b)
            for a, b in zip(
                parts + (0,) * (width - len(parts)), goal + (0,) * (width - len(goal)), strict=True
            )
        ]

    return sorted(versions, key=distance)[:NEAREST]


def offered_by(facts: Facts, owner: str) -> list[str]:
    """Versions that the repository of a role has of what was asked."""
    answer = facts["repositories"].get(owner) or {}
    versions = (answer.get("versions") or {}).values()
    return list(dict.fromkeys(version for offered in versions for version in offered))
