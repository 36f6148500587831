"""What the checks of preflight share: their input, offered versions, and the form of a refusal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpusmith.data.compatibility import Compatibility
from gpusmith.data.models import Model
from gpusmith.errors import Refusal
from gpusmith.expect import gpus
from gpusmith.expect.versions import numbers
from gpusmith.inventory.specs import load as load_specs
from gpusmith.node.records import load
from gpusmith.probe.nvml import Nvml
from gpusmith.probe.pci import Pci
from gpusmith.probe.record import SCHEMA, Record

Facts = Mapping[str, Any]
Wanted = Mapping[str, Any]

NEAREST = 3


@dataclass(frozen=True)
class Tables:
    """What is known of GPU models and of versions."""

    models: Mapping[str, Model]
    versions: Compatibility


def models_of(facts: Facts, wanted: Wanted, tables: Tables) -> list[Model]:
    """Models of the machine's GPUs; the inventory's where PCI shows none, or nobody looked."""
    raw = facts.get("record") or {}
    seen = Record(SCHEMA, pci=load(Pci, raw.get("pci") or {}), nvml=load(Nvml, raw.get("nvml") or {}))
    declared = tables.models.get(str(wanted.get("gpu_model") or ""))
    return gpus.of(seen, tables.models) or ([declared] if declared else [])


def refusal(check: str, found: str, allowed: str, next_step: str) -> Refusal:
    """One reason to refuse a host."""
    return Refusal(f"{check}: {found}; allowed: {allowed}.", next_step)


def or_default(wanted: Wanted, key: str) -> Any:
    """What the inventory says of role host_baseline, or what the role does by itself."""
    value = wanted.get(key)
    return load_specs().variables[f"host_baseline_{key}"].default if value is None else value


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
