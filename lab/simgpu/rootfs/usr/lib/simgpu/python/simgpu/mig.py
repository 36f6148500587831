"""Multi-Instance GPU: the mode of GPUs, and their instances.

What instances there can be is in the live state, by the model. A compute instance is as large as its GPU instance: there is one,
of ID 0, or none.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import uuid
from collections.abc import Mapping

from simgpu import paths
from simgpu.errors import RefusedError
from simgpu.files import read
from simgpu.hardware import inforom, write_inforom
from simgpu.processes import call
from simgpu.procfs import capability_minor
from simgpu.publish import publish
from simgpu.state import State
from simgpu.usage import DEVICE, opened

Row = dict[str, str]
CAPABILITY = re.compile(r"/dev/nvidia-caps/nvidia-cap(\d+)$")
AMPERE = "7"
"""It needs a reset for the mode, and keeps it in its InfoROM. Later GPUs need none, and forget it with the driver."""
DAEMON = "nvidia-persiste"
"""The persistence daemon, as the kernel cuts its name: the driver takes the GPU from it, and gives it back."""


def set_mode(address: str, mode: int) -> None:
    """Switch the mode of a GPU. While it is in use, Ampere keeps that for its next reset; others keep nothing."""
    state = State.load()
    gpu = _gpu(state, address)
    if state.values["mig"] != "1":
        raise RefusedError(errno.EOPNOTSUPP)
    busy = gpu["mig"] != str(mode) and (bool(_instances(state, gpu)) or _open(DEVICE, gpu["minor"]))
    if state.values["arch"] == AMPERE:
        gpu["mig_pending"] = str(mode)
        write_inforom([*inforom(), address] if mode else [other for other in inforom() if other != address])
    if not busy:
        gpu["mig"] = gpu["mig_pending"] = str(mode)
    state.save()
    if busy:
        raise RefusedError(errno.EBUSY)


def reset(address: str) -> None:
    """Give a GPU the mode that it was told, and take its instances, as nvidia-smi does it. In use it is not reset."""
    state = State.load()
    gpu = _gpu(state, address)
    if _open(DEVICE, gpu["minor"]):
        raise RefusedError(errno.EBUSY)
    state.instances = [row for row in state.instances if row["minor"] != gpu["minor"]]
    state.forget_xids(gpu)
    gpu["mig"] = gpu["mig_pending"]
    state.save()
    publish(state)


def create(address: str, profile_id: int, start: int | None = None) -> None:
    """Make a GPU instance, at a memory slice or where it takes the least from others.

    That rule is not NVIDIA's own word, but explains every placement that its user guide shows.
    """
    state = State.load()
    gpu = _divided(state, address)
    profile = next((row for row in state.profiles if row["id"] == str(profile_id)), None)
    if profile is None or (start is not None and start not in _starts(profile)):
        raise RefusedError(errno.EINVAL)
    there = _instances(state, gpu)
    taken = {memory for row in there for memory in _slices(row["start"], row["size"])}
    free = [
        (row["id"], slices)
        for row in state.profiles
        for slices in (_slices(first, row["memory"]) for first in _starts(row))
        if taken.isdisjoint(slices)
    ]
    own = [slices for key, slices in free if key == profile["id"] and start in (None, slices[0])]
    if not own or _spent(state, [_profile(state, row) for row in there], profile):
        raise RefusedError(errno.ENOSPC)
    at = min(own, key=lambda slices: sum(not set(slices).isdisjoint(other) for _, other in free))
    # The driver counts IDs by size: one for a whole GPU, the next two for halves, then quarters and eighths.
    gi = int(state.values["mig_memory"]) // len(at) - 1 + at[0] // len(at)
    state.instances.append(
        {
            "minor": gpu["minor"],
            "gi": str(gi),
            "profile": profile["id"],
            "start": str(at[0]),
            "size": str(len(at)),
            "compute": "0",
            "uuid": f"MIG-{uuid.uuid5(uuid.UUID(gpu['uuid'].removeprefix('GPU-')), f'{gi}/0')}",
        }
    )
    _show(state, gpu["minor"], gi, "")


def _spent(state: State, there: list[Row], profile: Row) -> bool:
    """Whether something other than memory slices is missing for one more instance."""
    compute = sum(int(row["compute"]) for row in (*there, profile))
    media = sum(row["name"].endswith("+me") for row in (*there, profile))
    same = sum(row is profile for row in there)
    return compute > int(state.values["mig_compute"]) or media > 1 or same >= int(profile["most"])


def create_compute(address: str, gi: int) -> None:
    """Make the compute instance of a GPU instance."""
    state = State.load()
    row = _instance(state, _divided(state, address), gi)
    if row["compute"] == "1":
        raise RefusedError(errno.ENOSPC)
    row["compute"] = "1"
    _show(state, row["minor"], gi, "ci0/")


def destroy_compute(address: str, gi: int) -> None:
    """Take a compute instance away, if no program computes on it."""
    state = State.load()
    row = _instance(state, _divided(state, address), gi)
    if row["compute"] == "0":
        raise RefusedError(errno.ENOENT)
    if _open(CAPABILITY, str(capability_minor(int(row["minor"]), gi, 0))):
        raise RefusedError(errno.EBUSY)
    row["compute"] = "0"
    state.save()
    publish(state)


def destroy(address: str, gi: int) -> None:
    """Take a GPU instance away, if it has no compute instance."""
    state = State.load()
    row = _instance(state, _divided(state, address), gi)
    if row["compute"] == "1":
        raise RefusedError(errno.EBUSY)
    state.instances.remove(row)
    state.save()
    publish(state)


def _show(state: State, minor: str, gi: int, below: str) -> None:
    """Write a new instance, and make the device node of its capability, as NVML has nvidia-modprobe do."""
    state.save()
    publish(state)
    tool = "/usr/bin/nvidia-modprobe"
    if os.access(tool, os.X_OK):
        call(tool, "-f", f"/proc/driver/nvidia/capabilities/gpu{minor}/mig/gi{gi}/{below}access", check=False)


def _gpu(state: State, address: str) -> Row:
    gpu = state.gpu(address)
    if gpu is None:
        raise RefusedError(errno.ENODEV, f"the driver does not drive GPU {address}")
    return gpu


def _divided(state: State, address: str) -> Row:
    """A GPU that has its mode on."""
    gpu = _gpu(state, address)
    if gpu["mig"] != "1":
        raise RefusedError(errno.EOPNOTSUPP)
    return gpu


def _instances(state: State, gpu: Mapping[str, str]) -> list[Row]:
    return [row for row in state.instances if row["minor"] == gpu["minor"]]


def _instance(state: State, gpu: Mapping[str, str], gi: int) -> Row:
    for row in _instances(state, gpu):
        if row["gi"] == str(gi):
            return row
    raise RefusedError(errno.ENOENT)


def _profile(state: State, instance: Mapping[str, str]) -> Row:
    return next(row for row in state.profiles if row["id"] == instance["profile"])


def _starts(profile: Mapping[str, str]) -> list[int]:
    return [int(text) for text in profile["starts"].split(",")]


def _slices(start: int | str, size: str) -> range:
    return range(int(start), int(start) + int(size))


def _open(pattern: re.Pattern[str], name: str) -> bool:
    """Whether a program has a device open, other than the one that asks."""
    for folder in paths.PROCESSES.iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getppid():
            with contextlib.suppress(OSError):  # it has ended
                if name in opened(folder, pattern) and read(folder / "comm").strip() != DAEMON:
                    return True
    return False
