"""All GPUs of this machine, as its own word says."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpusmith.partition.gpu import REBOOT, Gpu
from gpusmith.partition.problem import PartitionError
from gpusmith.probe import layout, library, mps, nvml

MARKS = Path("/run/gpusmith/gpu-layout")
"""A file in it is named as the label of the layout that the GPUs have."""
MPS = Path(mps.ROOT)
NO_DRIVER = "Install the driver, and load it: a GPU is divided by it."


def settle(wanted: layout.GpuLayout, check: bool, done: list[str], by_mps: bool = False) -> bool | None:
    """Make all GPUs so, but for those that are ignored.

    Args:
        wanted: how.
        check: only tell what would be done.
        done: is told of each step once it is done.
        by_mps: their compute mode is that of MPS that runs, or of no MPS, and stays.

    Returns:
        Whether the GPUs are simulated; None if there is no driver, so that no GPU can be divided.

    Raises:
        PartitionError: one cannot be made so.
    """
    import pynvml

    found = library.find(library.ask(), [])["nvidia-ml"]
    if not found:
        if wanted.profile:
            raise PartitionError("NVML's library is not on this machine.", NO_DRIVER)
        return None
    try:
        simulated = nvml.load(found[0])
    except OSError as error:
        raise PartitionError(
            f"NVML's library cannot be loaded: {error}.", "Install the driver anew."
        ) from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_DRIVER_NOT_LOADED and not wanted.profile:
            return None
        hint = NO_DRIVER if error.value == pynvml.NVML_ERROR_DRIVER_NOT_LOADED else REBOOT
        raise PartitionError(f"NVML does not start; it says: {nvml.words(error)}.", hint) from error
    try:
        _settle_all(wanted, check, done, by_mps)
    except pynvml.NVMLError as error:
        raise PartitionError(f"NVML says: {nvml.words(error)}.", REBOOT) from error
    finally:
        with suppress(pynvml.NVMLError):  # it did not start again after a reset
            pynvml.nvmlShutdown()
    return simulated


def _settle_all(wanted: layout.GpuLayout, check: bool, done: list[str], by_mps: bool) -> None:
    import pynvml

    ignored = {name.lower() for name in wanted.ignored}
    gpus = [Gpu(index) for index in range(pynvml.nvmlDeviceGetCount())]
    gpus = [gpu for gpu in gpus if not ignored & {gpu.pci, gpu.device_id}]
    if wanted.profile and not gpus:
        raise PartitionError(
            "NVML shows no GPU that could be divided.", "Look at the kernel's log with 'journalctl -k'."
        )
    # What cannot be done is found before anything is changed.
    steps = [(gpu, gpu.steps(wanted)) for gpu in gpus]
    for gpu in gpus:
        # Who ends MPS's control daemon with SIGKILL leaves that.
        if not by_mps and gpu.shut():
            if not check:
                gpu.open()
            done.append(f"compute mode of {gpu.label} is set to DEFAULT")
    for gpu, planned in steps:
        if check:
            done += planned
        elif planned:
            gpu.settle(wanted, done)


def main(words: Sequence[str]) -> int:
    """Do what the file says, and print the result as one line of JSON."""
    parser = argparse.ArgumentParser(prog="gpu-layout", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only tell what would be done")
    parser.add_argument("--mps", action="store_true", help="leave alone what MPS has there")
    parser.add_argument("--file", default=layout.PATH, help="that says how; without it GPUs stay whole")
    options = parser.parse_args(words)
    done: list[str] = []
    try:
        try:
            wanted = layout.read(options.file) or layout.GpuLayout()
        except (OSError, ValueError) as error:
            raise PartitionError(
                f"'{options.file}' cannot be read: {error}.",
                "Change the layout of this node again, which writes it anew.",
            ) from error
        if not options.check:
            _without_mps(options.mps)
            _mark(None)
        # Without the folder of MPS, a mode is the site's own.
        simulated = settle(wanted, options.check, done, options.mps or not MPS.is_dir())
        if not options.mps:
            _forget_mps(options.check, done)
        if wanted.profile and not options.check:
            _mark(wanted)
    except PartitionError as error:
        _tell(
            {
                "error": error.message,
                "hint": error.hint,
                "in_use": error.in_use,
                "changed": bool(done),
                "done": done,
            }
        )
        return 1
    _tell({"changed": bool(done), "done": done, "simulated": simulated})
    return 0


def _without_mps(by_mps: bool) -> None:
    """Leave GPUs to a control daemon that ends, and takes its mode back; whoever waits for it tries again."""
    controls = () if by_mps or not MPS.is_dir() else mps.gather().controls
    if controls:
        raise PartitionError(
            f"MPS's control daemon runs still, as process {', '.join(map(str, controls))}.",
            "Its pod ends when the operands leave the node; one of your own ends by its command 'quit'.",
            in_use=True,
        )


def _forget_mps(check: bool, done: list[str]) -> None:
    """Take away what a control daemon leaves also when it ends as it should: its sockets' folder, and a mount in it."""
    if not MPS.is_dir():
        return
    memory = MPS / "shm"
    try:
        while not check and os.path.ismount(memory):
            subprocess.run(
                ["umount", str(memory)], check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
        if not check:
            shutil.rmtree(MPS)
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stdout", None) or str(error).encode()
        raise PartitionError(
            f"'{MPS}', which MPS left, cannot be removed: {' '.join(said.decode(errors='replace').split())}.",
            f"See who has files open in '{memory}', and end them.",
        ) from error
    done.append(f"what MPS left in '{MPS}' is removed")


def _mark(made: layout.GpuLayout | None) -> None:
    """Say for this boot how GPUs are divided, which the device plugin of that layout waits for; None takes that back."""
    MARKS.mkdir(parents=True, exist_ok=True)
    for path in MARKS.iterdir():
        path.unlink()
    if made:
        (MARKS / f"mig-{len(made.starts)}x{made.profile.replace('+', '.')}").touch()


def _tell(result: dict[str, Any]) -> None:
    print(json.dumps(result, sort_keys=True), flush=True)
