"""What NVML says about the GPUs."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Process:
    """A process that computes on a GPU.

    Attributes:
        pod: whether it belongs to a pod, by its cgroup.
    """

    pid: int
    name: str | None
    pod: bool


VALUES = {
    **{
        name: (name,)
        for name in (
            "uuid", "name", "minor", "pci", "memory_mib", "ecc_mode", "ecc_uncorrected", "throttle_reasons", "mig_mode",
            "pcie_width", "pcie_width_max", "processes",
        )
    },
    "row_remap": ("remap_pending", "remap_failed"),
}  # fmt: skip
"""What every GPU is asked, with the fields that it gives. Not the fabric, which some models do not have in NVML."""


@dataclass(frozen=True)
class Gpu:
    """A GPU as NVML sees it.

    Attributes:
        error: NVML's own words when the GPU cannot be asked at all.
        unsupported: values that NVML says the GPU does not have.
        unreadable: values that could not be read, with NVML's words.
    """

    index: int
    uuid: str | None = None
    name: str | None = None
    minor: int | None = None
    pci: str | None = None
    memory_mib: int | None = None
    ecc_mode: str | None = None
    ecc_uncorrected: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    throttle_reasons: tuple[str, ...] | None = None
    mig_mode: str | None = None
    mig_mode_pending: str | None = None
    pcie_gen: int | None = None
    pcie_width: int | None = None
    pcie_gen_max: int | None = None
    pcie_width_max: int | None = None
    fabric_state: str | None = None
    fabric_status: str | None = None
    processes: tuple[Process, ...] | None = None
    error: str | None = None
    unsupported: frozenset[str] = frozenset()
    unreadable: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """How messages name it: index, UUID, address."""
        known = ", ".join(part for part in (self.uuid, self.pci) if part)
        return f"GPU {self.index} ({known})" if known else f"GPU {self.index}"

    def with_gaps(self) -> Gpu:
        """The same with each value that is null without a word about it among the unreadable ones."""
        gaps = {
            value: "nothing"
            for value, fields in VALUES.items()
            if value not in self.unsupported and any(getattr(self, name) is None for name in fields)
        }
        return replace(self, unreadable={**gaps, **self.unreadable})


@dataclass(frozen=True)
class Nvml:
    """The library's answer.

    Attributes:
        init_code: of nvmlInit; None if there is no library.
        error: why it does not answer.
    """

    init_code: int | None = None
    error: str | None = None
    driver_version: str | None = None
    gpus: tuple[Gpu, ...] = ()
