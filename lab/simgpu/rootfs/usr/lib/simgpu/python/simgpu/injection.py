"""Putting faults in, and taking them away."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time

from simgpu import driver, faults_file, paths
from simgpu.errors import RefusedError
from simgpu.fault import Fault, Target, known, registry
from simgpu.files import read
from simgpu.hardware import Gpu, Machine, gpu_by_index, hardware
from simgpu.kernel_log import klog
from simgpu.publish import publish
from simgpu.state import State

MONITORS = ("nvidia-device-p", "gpu-feature-dis", "dcgm-exporter")
"""What watches GPUs and never forgives them, by the names that the kernel gives their processes."""


def inject(name: str, code: int | None, index: int | None) -> None:
    """Put one fault in.

    Args:
        name: key of the registry.
        code: the number, for those that are given one.
        index: of the GPU as NVML counts, for those of a GPU (0 if not given).

    Raises:
        RefusedError: it does not fit this machine.
    """
    kind, machine = registry()[name], hardware()
    gpu = _gpu(kind, machine, index)
    _check_code(kind, code)
    row: faults_file.Row = {"kind": name, "pci": gpu["pci"] if gpu else None, "since": int(time.time())}
    if code is not None:
        row["code"] = code
    rows = faults_file.present()
    if not kind.repeatable and any((old["kind"], old.get("pci")) == (name, row["pci"]) for old in rows):
        return  # it is in already
    at = Target(machine, State.load(), row)
    for need in kind.needs:
        need(at)
    kind.inject(at)
    faults_file.save([*rows, row])
    at.state.save()
    kind.after_inject()
    publish(State.load())


def _gpu(kind: Fault, machine: Machine, index: int | None) -> Gpu | None:
    if kind.on_gpu:
        return gpu_by_index(machine, index)
    if index is not None:
        text = f"the fault '{kind.name}' is one of the machine: leave out --gpu"
        raise RefusedError(errno.EINVAL, text)
    return None


def _check_code(kind: Fault, code: int | None) -> None:
    if (kind.code is None) == (code is None):
        return
    name, example = next((other.name, other.code.example) for other in registry().values() if other.code)
    words = f"simgpu fault {name} {example} --gpu 1"
    raise RefusedError(errno.EINVAL, f"give a number with '{name}', and only there: {words}")


def heal() -> None:
    """Take all faults away."""
    machine, state = hardware(), State.load()
    rows = known(faults_file.present())
    reported = bool(state.xids)
    for kind, row in rows:
        kind.heal(Target(machine, state, row))
    faults_file.save([])
    if reported and not state.xids:
        # A GPU that reported one is repaired by a reset or a new load of the driver, which the kernel's log tells.
        version = state.values["version"]
        klog(f"NVRM: loading NVIDIA UNIX Kernel Module for x86_64  {version}  SIMULATED (healed)")
    state.save()
    publish(state)
    if "nvidia" in state.modules:
        driver.device_nodes("nvidia")
    healed = {kind.name: kind for kind, _ in rows}.values()
    for kind in healed:
        kind.after_heal()
    if any(kind.blinds_monitors for kind in healed):
        restart_monitors()


def restart_monitors() -> None:
    """End what watches GPUs (device plugin): a repaired machine comes back rebooted."""
    for entry in paths.PROCESSES.iterdir():
        if entry.name.isdigit() and read(entry / "comm").strip() in MONITORS:
            with contextlib.suppress(OSError):
                os.kill(int(entry.name), signal.SIGTERM)
