"""The GPU models of data/gpus.yml, as far as preflight and checks need them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gpusmith.data import compatibility, table

DEVICE = re.compile(r"^(0x|10de:)")
"""What may stand before the four digits of a PCI device ID."""
NO_ROW_REMAPPING = frozenset({"maxwell", "pascal", "volta", "turing"})
"""Architectures without row remapping: NVIDIA, "GPU Memory Error Management", table "Supported GPUs", has it from Ampere on
(docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/supported-gpus.html, read 2026-11-21)."""


@dataclass(frozen=True)
class Model:
    """One row of data/gpus.yml or of 'gpusmith_gpu_models', or what takes its place for a GPU that is no row.

    Attributes:
        key: what an inventory writes in 'gpusmith_gpu_model'.
        name: product name as NVML reports it.
        listed: whether it is a row; else it is what PCI and NVML tell of a GPU that is none (expect/gpus.py).
        also_named: names of other boards with the same PCI ID that do not differ otherwise.
        pci_device_id: as sysfs writes vendor and device, for example '10de:2330'.
        memory_mib: total memory that NVML reports.
        nvswitches: NVSwitches that the host sees on PCI.
        fabric_manager: CUDA needs the fabric manager's service.
        nvlink_subnet_manager: that needs a subnet manager beside it, and network functions that manage the switches (NVLink 5).
        fabric_state_in_nvml: NVML reports the fabric's state per GPU.
        architecture: as NVML names it.
        open_module: whether NVIDIA's open kernel module drives it: supported, required or unsupported.
        min_driver_branch: first driver branch that supports it; 0 if it is not known.
        pcie_width: lanes that every GPU has; None where boards or machines differ.
        nvlinks: NVLinks of every GPU; None where a machine may have bridges, or nothing is known.
        refused: why site.yml does not set machines with it up; empty if it does.
        memory_holds_ecc: its memory keeps the check bits of ECC, and is a fifteenth larger without.
        mig_table: how MIG divides it, a table of data/mig.yml; empty if it does not, or nothing is known.
    """

    key: str
    name: str
    pci_device_id: str
    memory_mib: int
    nvswitches: int
    fabric_manager: bool
    fabric_state_in_nvml: bool
    architecture: str
    open_module: str = "supported"
    min_driver_branch: int = 0
    pcie_width: int | None = 16
    memory_holds_ecc: bool = False
    refused: str = ""
    nvlinks: int | None = None
    nvlink_subnet_manager: bool = False
    also_named: tuple[str, ...] = ()
    mig_table: str = ""
    listed: bool = True

    @property
    def row_remapping(self) -> bool:
        """Whether its memory has spare rows."""
        return self.architecture not in NO_ROW_REMAPPING


def _row(key: str, row: Mapping[str, Any]) -> Model:
    """A row of the file, or of an inventory, which may leave out what is not known: then nothing is compared."""
    architecture = str(row["architecture"])
    limits = compatibility.load().architectures.get(architecture, compatibility.Limits())
    return Model(
        key=key,
        name=str(row["name"]),
        pci_device_id="10de:" + DEVICE.sub("", str(row["pci_device_id"]).lower()),
        memory_mib=int(row["memory_mib"]),
        nvswitches=int(row.get("nvswitches") or 0),
        fabric_manager=bool(row.get("fabric_manager")),
        fabric_state_in_nvml=bool(row.get("fabric_state_in_nvml")),
        architecture=architecture,
        open_module=str(row.get("open_module") or limits.open_module),
        min_driver_branch=int(row.get("min_driver_branch") or 0),
        pcie_width=row.get("pcie_width"),
        memory_holds_ecc=bool(row.get("memory_holds_ecc")),
        nvlinks=row.get("nvlinks"),
        refused=str(row.get("refused") or ""),
        nvlink_subnet_manager=bool(row.get("nvlink_subnet_manager")),
        also_named=tuple(row.get("also_named") or ()),
        mig_table=str(row.get("mig_table") or ""),
    )


def _parse(content: dict[str, Any]) -> Mapping[str, Model]:
    return {key: _row(key, row) for key, row in content["models"].items()}


@cache
def load(path: Path | None = None) -> Mapping[str, Model]:
    """All models by key.

    Raises:
        ToolError: the file is missing or has another shape.
    """
    return table.read(path, "gpus.yml", "gpusmith.gpus/1", "GPU models", _parse)


def joined(
    models: Mapping[str, Model], own: Mapping[str, Mapping[str, Any]], declared: str = ""
) -> Mapping[str, Model]:
    """These models and those of an inventory. The last with a GPU's PCI ID is the GPU's: the declared one, or an own one."""
    if not own:
        return models
    rows = {**models, **{key: _row(key, row) for key, row in own.items()}}
    last = {declared: rows.pop(declared)} if declared in rows else {}
    return {**rows, **last}
