"""What the GPUs of a node are before a driver is replaced, and must be afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpusmith.probe.nvml import Gpu
from gpusmith.probe.record import Record
from gpusmith.problems import Problem

SAME = {
    "pci": "PCI address",
    "vbios": "VBIOS",
    "ecc_mode": "ECC mode",
    "mig_mode": "MIG mode",
    "persistence_mode": "persistence mode",
}
"""What a driver must leave as it was."""
RETURNING = "returning"
"""In a rollback, the GPUs that the driver which is taken back has lost."""
POWER = "power_w"
NEARLY_W = 0.5
"""Drivers round."""


def _watts(gpu: Gpu) -> float | None:
    return None if gpu.power_limit_mw is None else gpu.power_limit_mw / 1000


def taken(record: Record) -> dict[str, Any]:
    """What the ledger keeps: for every GPU that answers, what it is.

    Args:
        record: of the node, with its driver loaded.
    """
    return {
        "gpus": {
            gpu.uuid: {**{name: getattr(gpu, name) for name in SAME}, POWER: _watts(gpu)}
            for gpu in record.nvml.gpus
            if gpu.uuid and not gpu.error
        }
    }


def of_rollback(now: Mapping[str, Any], earlier: Mapping[str, Any]) -> dict[str, Any]:
    """What the ledger of a rollback keeps: GPUs that the driver lost may come back, with the settings that they had before it.

    Args:
        now: from taken(), with the driver that is taken back.
        earlier: from taken(), before that driver came; empty if nobody knows.
    """
    were, are = _all(earlier), now.get("gpus") or {}
    return {**now, RETURNING: {uuid: row for uuid, row in were.items() if uuid not in are}}


def _all(before: Mapping[str, Any]) -> dict[str, Any]:
    return {**(before.get(RETURNING) or {}), **(before.get("gpus") or {})}


def to_restore(before: Mapping[str, Any], record: Record) -> dict[str, dict[str, Any]]:
    """What a driver forgets when it is unloaded, as arguments of driver_state; empty if it is all there.

    Args:
        before: from taken().
        record: of the node as it is now.
    """
    were, limits, persistence = _all(before), {}, {}
    for uuid, now in taken(record)["gpus"].items():
        was = were.get(uuid, {})
        limit, mode = was.get(POWER), was.get("persistence_mode")
        if limit is not None and now[POWER] is not None and abs(limit - now[POWER]) > NEARLY_W:
            limits[uuid] = limit
        if mode is not None and now["persistence_mode"] not in (None, mode):
            persistence[uuid] = mode == "enabled"
    found = {"power_limits": limits, "persistence": persistence}
    return {name: values for name, values in found.items() if values}


def differences(before: Mapping[str, Any], record: Record, node: str) -> list[Problem]:
    """What the driver that is loaded now made of the GPUs, once what it forgot was put back. Power limits are no part of it.

    Args:
        before: from taken(), or from of_rollback(). One of taken() without GPUs tells nothing, which is a problem as well.
        record: of the node as it is now.
        node: its name.
    """
    were, are = before.get("gpus") or {}, taken(record)["gpus"]
    may_return = RETURNING in before
    if not were and not may_return:
        return [
            Problem(
                f"Node '{node}': what its GPUs were before the driver was replaced is not known.",
                f"Compare 'nvidia-smi -q' on '{node}' with what you expect.",
            )
        ]
    found = []
    if len(were) != len(are) and not (may_return and len(are) > len(were)):
        found.append(f"there were {len(were)} GPUs and now there are {len(are)}")
    found += [f"GPU {uuid} ({row['pci']}) is gone" for uuid, row in were.items() if uuid not in are]
    if not may_return:
        found += [
            f"GPU {uuid} ({row['pci']}) was not there before" for uuid, row in are.items() if uuid not in were
        ]
    for uuid, was in were.items():
        for name, words in SAME.items():
            now = are.get(uuid, was)[name]
            # What the GPU does not have, or the driver before could not tell, cannot be compared.
            if was.get(name) is not None and now != was[name]:
                found.append(f"GPU {uuid}: its {words} was {was[name]} and is {now or 'not known'} now")
    return [
        Problem(
            f"Node '{node}': {text}.",
            f"Look at 'nvidia-smi -q' and 'journalctl -k -g NVRM' on '{node}'.",
            {"before": were, "now": are},
        )
        for text in found
    ]
