"""What MIG has made of a GPU: its instances."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

PROFILES = (
    "1_SLICE", "2_SLICE", "3_SLICE", "4_SLICE", "7_SLICE", "8_SLICE", "6_SLICE", "1_SLICE_REV1", "2_SLICE_REV1",
    "1_SLICE_REV2", "1_SLICE_GFX", "2_SLICE_GFX", "4_SLICE_GFX", "1_SLICE_NO_ME", "2_SLICE_NO_ME", "1_SLICE_ALL_ME",
    "2_SLICE_ALL_ME", "3_SLICE_GFX",
)  # fmt: skip
"""NVML's enumeration of sizes, after 'NVML_GPU_INSTANCE_PROFILE_'. Their ids are the GPU's."""


@dataclass(frozen=True)
class Instance:
    """An instance of a GPU.

    Attributes:
        uuid: of the MIG device that programs use; None for a GPU instance without a compute instance, which nobody can use.
        gpu_instance: its id.
        profile: of `PROFILES`.
        start: its first memory slice.
        size: in memory slices.
    """

    uuid: str | None
    gpu_instance: int
    profile: str
    start: int
    size: int


def profiles(handle: Any) -> Iterator[tuple[str, Any]]:
    """What sizes a GPU can have, with NVML's word on each."""
    import pynvml

    for number, name in enumerate(PROFILES):
        try:
            yield name, pynvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, number, version=1)
        except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_InvalidArgument):
            continue  # of other GPUs, or unknown to this library


def gpu_instances(handle: Any) -> list[tuple[str, Any, Any]]:
    """GPU instances of a GPU in MIG mode: the profile, NVML's handle and what it says of each."""
    import pynvml

    found: dict[int, tuple[str, Any, Any]] = {}
    for name, profile in profiles(handle):
        rows, count = (pynvml.c_nvmlGpuInstance_t * max(1, profile.instanceCount))(), ctypes.c_uint()
        pynvml.nvmlDeviceGetGpuInstances(handle, profile.id, rows, ctypes.byref(count))
        for row in rows[: count.value]:
            info = pynvml.nvmlGpuInstanceGetInfo(row)
            found.setdefault(info.id, (name, row, info))
    return [found[number] for number in sorted(found)]


def gather(handle: Any) -> tuple[Instance, ...]:
    """Instances of a GPU in MIG mode, in their order on it."""
    import pynvml

    uuids: dict[int, list[str | None]] = {}
    for index in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except pynvml.NVMLError_NotFound:
            continue
        number = pynvml.nvmlDeviceGetGpuInstanceId(device)
        uuids.setdefault(number, []).append(pynvml.nvmlDeviceGetUUID(device))
    found = [
        Instance(uuid, info.id, name, info.placement.start, info.placement.size)
        for name, _row, info in gpu_instances(handle)
        for uuid in uuids.get(info.id, [None])
    ]
    return tuple(sorted(found, key=lambda row: row.start))
