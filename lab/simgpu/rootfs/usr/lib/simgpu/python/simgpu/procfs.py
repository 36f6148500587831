"""What /proc shows: character devices, modules, and the driver's own folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from simgpu import paths
from simgpu.files import read, write
from simgpu.modules import SIZES, dependents
from simgpu.state import State

FRONTEND_MAJOR = 195
MIG_GPUS, MIG_INSTANCES, MIG_COMPUTE_INSTANCES = 8, 15, 8
FIRST_MIG_MINOR, IMEX_MINOR = 3, 4323
"""After 'config' and 'monitor', and after the instances of the 32 GPUs that the driver counts."""
NO_DEVICES = "Character devices:\n\nBlock devices:\n"


def majors() -> dict[str, int]:
    """Character majors of the NVIDIA devices: free ones of this kernel, the same until reboot."""
    lines = read(paths.RUN / "host" / "devices").splitlines()
    taken = {int(line.split()[0]) for line in lines if line.strip()[:1].isdigit()}
    free = [number for number in range(511, 384, -1) if number not in taken]
    return {"nvidia-uvm": free[0], "nvidia-caps": free[1], "nvidia-nvswitch": free[2]}


def module_options(state: State, module: str) -> dict[str, str]:
    """The options that a module was loaded with."""
    options: dict[str, str] = json.loads(state.values.get("options") or "{}").get(module, {})
    return options


def show_devices(state: State) -> None:
    """Write what stands for /proc/devices."""
    dynamic = majors()
    extra = []
    if "nvidia" in state.modules:
        extra += [
            f"{FRONTEND_MAJOR} nvidia",
            f"{FRONTEND_MAJOR} nvidiactl",
            f"{dynamic['nvidia-caps']:3d} nvidia-caps",
        ]
        if "nvidia_modeset" in state.modules:
            extra.append(f"{FRONTEND_MAJOR} nvidia-modeset")
        if state.values.get("switches", "0") != "0":
            extra.append(f"{dynamic['nvidia-nvswitch']:3d} nvidia-nvswitch")
    if "nvidia_uvm" in state.modules:
        extra.append(f"{dynamic['nvidia-uvm']:3d} nvidia-uvm")
    host = read(paths.RUN / "host" / "devices", NO_DEVICES)
    ours = "".join(f"{line}\n" for line in extra)
    write(paths.RUN / "devices", host.replace("\nBlock devices:", f"{ours}\nBlock devices:", 1))


def show_modules(state: State, counts: Mapping[str, int]) -> None:
    """Write what stands for /proc/modules."""
    lines = []
    for name in reversed(state.modules):
        by = "".join(f"{other}," for other in dependents(state, name)) or "-"
        lines.append(f"{name} {SIZES[name]} {counts[name]} {by} Live 0x0000000000000000 (OE)\n")
    write(paths.RUN / "modules", "".join(lines) + read(paths.RUN / "host" / "modules"))


def show_driver(state: State) -> None:
    """Write /proc/driver/nvidia and its neighbours."""
    base = paths.PROC / "nvidia"
    if "nvidia" not in state.modules:
        for name in ("nvidia", "nvidia-caps", "nvidia-nvswitch", "nvidia-uvm"):
            shutil.rmtree(paths.PROC / name, ignore_errors=True)
        return
    version = state.values["version"]
    is_open = state.values["flavour"] == "open"
    kind = "NVIDIA UNIX Open Kernel Module for x86_64" if is_open else "NVIDIA UNIX x86_64 Kernel Module"
    write(
        base / "version",
        f"NVRM version: {kind}  {version}  Release Build  (gpusmith lab, SIMULATED)\n"
        "GCC version:  none, simulated module\n",
    )
    # ModifyDeviceFiles is 1 in life. A container's own /proc cannot show this simulated tree, and NVIDIA's CDI hook
    # mounts over params there unless the value is 0 already. nvidia-modprobe makes the nodes here all the same.
    params = {
        "ResmanDebugLevel": "4294967295",
        "ModifyDeviceFiles": "0",
        "DeviceFileUID": "0",
        "DeviceFileGID": "0",
        "DeviceFileMode": "438",
    }
    for key, value in module_options(state, "nvidia").items():
        params[key.removeprefix("NVreg_")] = value
    write(base / "params", "".join(f"{key}: {value}\n" for key, value in params.items()))
    _show_gpus(state)
    _show_capabilities(state)
    if state.values.get("switches", "0") != "0":
        text = f"NVIDIA nvswitch driver {version} (SIMULATED)\n"
        write(paths.PROC / "nvidia-nvswitch" / "version", text)


def _show_gpus(state: State) -> None:
    base = paths.PROC / "nvidia" / "gpus"
    wanted = {row["pci"]: row for row in state.gpus}
    base.mkdir(exist_ok=True)
    for folder in base.iterdir():
        if folder.name not in wanted:
            shutil.rmtree(folder)
    for address, row in wanted.items():
        write(
            base / address / "information",
            f"Model: \t\t {state.values['name']}\nIRQ:   \t\t 0\nGPU UUID: \t {row['uuid']}\n"
            "Video BIOS: \t 96.00.simulated\nBus Type: \t PCIe\nDMA Size: \t 52 bits\nDMA Mask: \t 0xfffffffffffff\n"
            f"Bus Location: \t {address}\nDevice Minor: \t {row['minor']}\n"
            f"GPU Firmware: \t {state.values['version']}\nGPU Excluded:\t No\n",
        )


def _capability(minor: int, mode: int = 0o400) -> str:
    return f"DeviceFileMinor: {minor}\nDeviceFileMode: {mode}\nDeviceFileModify: 1\n"


def _show_capabilities(state: State) -> None:
    base, has_mig = paths.PROC / "nvidia" / "capabilities", state.values.get("mig") == "1"
    if has_mig:
        write(base / "mig" / "config", _capability(1))
        write(base / "mig" / "monitor", _capability(2, 0o444))
        _show_instances(state, base)
    write(base / "fabric-imex-mgmt", _capability(IMEX_MINOR))
    write(paths.PROC / "nvidia-caps" / "mig-minors", mig_minors() if has_mig else "")
    write(paths.PROC / "nvidia-caps" / "sys-minors", f"fabric-imex-mgmt {IMEX_MINOR}\n")


def _show_instances(state: State, base: Path) -> None:
    wanted = {}
    for row in state.instances:
        minor, gi = int(row["minor"]), int(row["gi"])
        folder = base / f"gpu{minor}" / "mig" / f"gi{gi}"
        wanted[folder] = capability_minor(minor, gi)
        if row["compute"] == "1":
            wanted[folder / "ci0"] = capability_minor(minor, gi, 0)
    for folder in [*base.glob("gpu*/mig/gi*"), *base.glob("gpu*/mig/gi*/ci*")]:
        if folder not in wanted:
            shutil.rmtree(folder, ignore_errors=True)
    for folder, minor in wanted.items():
        write(folder / "access", _capability(minor, 0o444))


def capability_minor(gpu: int, gi: int, ci: int = -1) -> int:
    """Minor of the capability of a GPU instance, or of its compute instance."""
    return FIRST_MIG_MINOR + (gpu * MIG_INSTANCES + gi) * (1 + MIG_COMPUTE_INSTANCES) + 1 + ci


def mig_minors() -> str:
    """Minors of the MIG capabilities, numbered as the driver does: 8 GPUs, 15 instances, 8 compute instances."""
    names = ["config", "monitor"]
    for gpu in range(MIG_GPUS):
        for instance in range(MIG_INSTANCES):
            below = f"gpu{gpu}/gi{instance}"
            names.append(f"{below}/access")
            names += [f"{below}/ci{compute}/access" for compute in range(MIG_COMPUTE_INSTANCES)]
    return "".join(f"{name} {minor}\n" for minor, name in enumerate(names, start=1))
