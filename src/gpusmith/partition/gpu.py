"""One GPU by NVML: its MIG mode and its instances, as they are and as they are wanted."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gpusmith.partition.problem import PartitionError
from gpusmith.probe import usage
from gpusmith.probe.commands import find_program
from gpusmith.probe.instances import PROFILES, gpu_instances
from gpusmith.probe.layout import GpuLayout
from gpusmith.probe.nvml import words
from gpusmith.probe.pci import normal_pci

PATIENCE_S = 10.0
"""Whoever asks something, as nvidia-smi and the probe do, goes again."""
POLL_S = 0.5
RESET_TIMEOUT_S = 120.0
SHARED_ENGINES = 0
DAEMON = "nvidia-persistenced"
"""The driver takes a GPU from it, and gives it back."""
REBOOT = "Reboot the machine; the change goes on at its boot."


def count(number: int, what: str) -> str:
    """A number of things, in words."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


class Gpu:
    """One GPU. NVML is asked for it anew each time: a handle does not outlive a reset.

    Attributes:
        pci: its address.
        device_id: 'vendor:device'.
        label: how messages name it.
    """

    def __init__(self, index: int) -> None:
        import pynvml

        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            pci = pynvml.nvmlDeviceGetPciInfo(handle)
            self._minor = pynvml.nvmlDeviceGetMinorNumber(handle)
            uuid = pynvml.nvmlDeviceGetUUID(handle)
        except pynvml.NVMLError as error:
            raise PartitionError(
                f"GPU {index} does not answer; NVML says: {words(error)}.", REBOOT
            ) from error
        self.pci = normal_pci(pci.busId)
        self.device_id = f"{pci.pciDeviceId & 0xFFFF:04x}:{pci.pciDeviceId >> 16:04x}"
        self.label = f"GPU {index} ({uuid}, {self.pci})"

    @property
    def handle(self) -> Any:
        """NVML's."""
        import pynvml

        return pynvml.nvmlDeviceGetHandleByPciBusId(self.pci.encode())

    # --- as it is ---

    def modes(self) -> tuple[int, int] | None:
        """The MIG mode now and after a reset; None if it has no MIG."""
        import pynvml

        try:
            now, later = pynvml.nvmlDeviceGetMigMode(self.handle)
        except pynvml.NVMLError_NotSupported:
            return None
        return now, later

    def instances(self) -> list[Any]:
        """GPU instances, with MIG mode on."""
        return gpu_instances(self.handle)

    def is_as(self, layout: GpuLayout) -> bool:
        """Whether its instances are exactly the wanted ones, each with a compute instance of all of it. With MIG mode on."""
        import pynvml

        found = self.instances()
        if not layout.profile or not found:
            return not layout.profile and not found
        profile = self._profile(layout)
        if sorted((info.profileId, info.placement.start) for _, _, info in found) != sorted(
            (profile.id, start) for start in layout.starts
        ):
            return False
        for _name, handle, _info in found:
            whole = _compute_profile(handle, profile)
            of_it = [
                pynvml.nvmlComputeInstanceGetInfo_v2(row).profileId for row in _compute_instances(handle)
            ]
            if of_it != [whole]:
                return False
        return True

    def shut(self) -> bool:
        """Whether its compute mode keeps processes from it."""
        import pynvml

        try:
            return bool(pynvml.nvmlDeviceGetComputeMode(self.handle) != pynvml.NVML_COMPUTEMODE_DEFAULT)
        except pynvml.NVMLError_NotSupported:
            return False

    def open(self) -> None:
        """Let all processes compute on it."""
        import pynvml

        with self._said(f"compute mode of {self.label} cannot be set"):
            pynvml.nvmlDeviceSetComputeMode(self.handle, pynvml.NVML_COMPUTEMODE_DEFAULT)

    # --- as it is wanted ---

    def steps(self, layout: GpuLayout) -> list[str]:
        """What would be done.

        Raises:
            PartitionError: it cannot be made so.
        """
        modes, wanted = self.modes(), int(bool(layout.profile))
        if modes is None:
            if not wanted:
                return []
            raise PartitionError(
                f"{self.label} cannot be divided; NVML says that it has no MIG mode.",
                f"Hand its GPUs out whole, or leave this one out, not in '{layout.profile}'.",
            )
        right = bool(modes[0]) and self.is_as(layout)
        done = [] if not modes[0] or right else self._removal(len(self.instances()))
        done += [] if modes == (wanted, wanted) else [self._switch(wanted)]
        return done + ([] if not wanted or right else [self._division(layout)])

    def settle(self, layout: GpuLayout, done: list[str]) -> None:
        """Make it so.

        Args:
            layout: that is wanted.
            done: is told of each step once it is done.

        Raises:
            PartitionError: it cannot be made so.
        """
        modes, wanted = self.modes(), int(bool(layout.profile))
        if modes is None:
            return
        if modes[0] and not self.is_as(layout):
            done += self._destroy()
        if modes != (wanted, wanted):
            self._set_mode(wanted, done)
        if wanted and not self.is_as(layout):
            self._create(layout)
            done.append(self._division(layout))

    def _removal(self, number: int) -> list[str]:
        return (
            [f"{count(number, 'MIG instance')} of {self.label} {'is' if number == 1 else 'are'} removed"]
            if number
            else []
        )

    def _switch(self, mode: int) -> str:
        return f"MIG mode of {self.label} is switched {'on' if mode else 'off'}"

    def _division(self, layout: GpuLayout) -> str:
        return f"{self.label} is divided into {count(len(layout.starts), 'MIG instance')} {layout.profile}"

    # --- the steps ---

    def _destroy(self) -> list[str]:
        import pynvml

        found = self.instances()
        for _name, handle, info in found:
            with self._said(f"instance {info.id} of {self.label} cannot be removed"):
                for row in _compute_instances(handle):
                    _patiently(pynvml.nvmlComputeInstanceDestroy, row)
                _patiently(pynvml.nvmlGpuInstanceDestroy, handle)
        return self._removal(len(found))

    def _set_mode(self, mode: int, done: list[str]) -> None:
        import pynvml

        what = f"MIG mode of {self.label} cannot be switched {'on' if mode else 'off'}"
        status, modes = pynvml.NVML_SUCCESS, self.modes()
        if modes is None or modes[1] != mode:
            end = time.monotonic() + PATIENCE_S
            while True:
                with self._said(what):
                    status = pynvml.nvmlDeviceSetMigMode(self.handle, mode)
                modes = self.modes()
                if status != pynvml.NVML_ERROR_IN_USE or time.monotonic() > end:
                    break
                time.sleep(POLL_S)
        if modes == (mode, mode):
            done.append(self._switch(mode))
            return
        if modes is None or modes[1] != mode or status == pynvml.NVML_ERROR_IN_USE:
            raise self._problem(what, pynvml.NVMLError(status))
        # It is noted for the next reset: so it is with Ampere, and in virtual machines that cannot reset their GPU.
        self._reset(what)
        if self.modes() != (mode, mode):
            raise PartitionError(f"{what}: a reset did not bring it.", REBOOT)
        done += [f"{self.label} is reset", self._switch(mode)]

    def _reset(self, what: str) -> None:
        """Reset it by nvidia-smi, which NVML has no function for. Nobody may have it open, this program neither."""
        import pynvml

        program = find_program("nvidia-smi")
        if program is None:
            raise PartitionError(
                f"{what} without a reset, and there is no 'nvidia-smi' to reset it.",
                "Install the driver's tools, or reboot the machine.",
            )
        pynvml.nvmlShutdown()
        command = [program, "--gpu-reset", "-i", self.pci]
        try:
            reset = subprocess.run(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=RESET_TIMEOUT_S,
            )
            said = "" if reset.returncode == 0 else " ".join(reset.stdout.split())
            failed = reset.returncode != 0
        except subprocess.TimeoutExpired:
            failed, said = True, f"nothing within {RESET_TIMEOUT_S:.0f} s"
        finally:
            pynvml.nvmlInit()
        if failed:
            hint = self._holders()
            raise PartitionError(
                f"{what}: it needs a reset, and '{' '.join(['nvidia-smi', *command[1:]])}' failed. It says: {said}",
                f"{hint} {REBOOT}" if hint else REBOOT,
                in_use=bool(hint),
            )

    def _create(self, layout: GpuLayout) -> None:
        import pynvml

        profile, handle = self._profile(layout), self.handle
        sizes = _placements(handle, profile.id)
        for start in layout.starts:
            if start not in sizes:
                raise PartitionError(
                    f"{self.label} has no place for an instance {layout.profile} at memory slice {start}; by NVML it has"
                    f" {', '.join(map(str, sorted(sizes))) or 'none'}.",
                    "The layout is not of this model: correct 'gpusmith_gpu_model', and change the layout again.",
                )
            place = pynvml.c_nvmlGpuInstancePlacement_t(start, sizes[start])
            with self._said(
                f"instance {layout.profile} at memory slice {start} of {self.label} cannot be made"
            ):
                made = pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(
                    handle, profile.id, ctypes.byref(place)
                )
                pynvml.nvmlGpuInstanceCreateComputeInstance(made, _compute_profile(made, profile))

    def _profile(self, layout: GpuLayout) -> Any:
        """NVML's word on the wanted size."""
        import pynvml

        try:
            return pynvml.nvmlDeviceGetGpuInstanceProfileInfo(
                self.handle, PROFILES.index(layout.nvml), version=1
            )
        except (ValueError, pynvml.NVMLError_NotSupported, pynvml.NVMLError_InvalidArgument) as error:
            said = "it is unknown here" if isinstance(error, ValueError) else f"NVML says: {words(error)}"
            raise PartitionError(
                f"{self.label} has no MIG profile '{layout.profile}' ({layout.nvml}): {said}.",
                "The layout is not of this model: correct 'gpusmith_gpu_model', and change the layout again.",
            ) from error

    # --- what went wrong ---

    @contextmanager
    def _said(self, what: str) -> Iterator[None]:
        import pynvml

        try:
            yield
        except pynvml.NVMLError as error:
            raise self._problem(what, error) from error

    def _problem(self, what: str, error: Any) -> PartitionError:
        """The error for one of NVML's."""
        import pynvml

        message = f"{what[0].upper()}{what[1:]}; NVML says: {words(error)}."
        if error.value == pynvml.NVML_ERROR_IN_USE:
            holders = self._holders()
            return PartitionError(
                message,
                holders or "No process is seen that has it open: look for virtual machines.",
                in_use=True,
            )
        if error.value == pynvml.NVML_ERROR_NO_PERMISSION:
            return PartitionError(message, "Run this as root, and not in a container.")
        return PartitionError(message, REBOOT)

    def _holders(self) -> str:
        """Who has it open, in a sentence; empty if nobody is seen."""
        # This program has it open as well, and so had its child that looked.
        found = [
            holder.words
            for holder in usage.gather().holders
            if holder.pid != os.getpid()
            and os.path.exists(f"/proc/{holder.pid}")
            and self._minor in holder.minors
            and not holder.command.split("/")[-1].startswith(DAEMON)
        ]
        return f"It is held by {'; '.join(found)}. End this, and run again." if found else ""


def _patiently(destroy: Callable[[Any], Any], what: Any) -> None:
    """Destroy what may be in use for a moment yet."""
    import pynvml

    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            destroy(what)
        except pynvml.NVMLError_InUse:
            if time.monotonic() > end:
                raise
            time.sleep(POLL_S)
        else:
            return


def _placements(handle: Any, profile: int) -> dict[int, int]:
    """Where instances of a profile may be: size by start."""
    import pynvml

    number = ctypes.c_uint()
    pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, profile, None, ctypes.byref(number))
    rows = (pynvml.c_nvmlGpuInstancePlacement_t * max(1, number.value))()
    pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, profile, rows, ctypes.byref(number))
    return {row.start: row.size for row in rows[: number.value]}


def _compute_profiles(instance: Any) -> Iterator[Any]:
    import pynvml

    for number in range(pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
        try:
            yield pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(
                instance, number, SHARED_ENGINES, version=1
            )
        except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_InvalidArgument):
            continue


def _compute_profile(instance: Any, profile: Any) -> int:
    """Id of the compute instance that takes all of a GPU instance.

    Raises:
        PartitionError: NVML tells of none.
    """
    for row in _compute_profiles(instance):
        if row.sliceCount == profile.sliceCount:
            return int(row.id)
    raise PartitionError(
        f"NVML has no compute instance of {count(profile.sliceCount, 'slice')} for a GPU instance of that size.",
        "Update the driver.",
    )


def _compute_instances(instance: Any) -> list[Any]:
    """Compute instances of a GPU instance."""
    import pynvml

    found: dict[int, Any] = {}
    for profile in _compute_profiles(instance):
        rows, number = (pynvml.c_nvmlComputeInstance_t * max(1, profile.instanceCount))(), ctypes.c_uint()
        pynvml.nvmlGpuInstanceGetComputeInstances(instance, profile.id, rows, ctypes.byref(number))
        for row in rows[: number.value]:
            found[pynvml.nvmlComputeInstanceGetInfo_v2(row).id] = row
    return list(found.values())
