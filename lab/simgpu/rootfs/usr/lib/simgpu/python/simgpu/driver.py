"""The driver's modules: loading and unloading them, and what the driver then knows of its GPUs."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import time
import uuid
from pathlib import Path

from simgpu import fault, paths, pci
from simgpu.errors import RefusedError
from simgpu.hardware import Gpu, Machine, delay_s, hardware, inforom
from simgpu.kernel_log import ERROR, WARNING, klog
from simgpu.modinfo import modinfo
from simgpu.modules import BYTES, DEPENDS, dependents, lockable, named
from simgpu.processes import call
from simgpu.procfs import FRONTEND_MAJOR, majors
from simgpu.publish import publish
from simgpu.state import FABRIC, State

ARCHITECTURES = {"volta": 5, "turing": 6, "ampere": 7, "ada": 8, "hopper": 9, "blackwell": 10}
FIRMWARE = Path("/lib/firmware/nvidia")
COOL_C = "31"
IDLE_MW = 69000
DEFECT = "simgpu_defect"
"""Field of a module's file in a version that is broken on purpose (repository cuda-broken)."""
DAEMONS = ("nvidia-persistenced.service", "nvidia-fabricmanager.service")


def fresh_state(machine: Machine) -> State:
    """The live state of a machine whose driver is not loaded."""
    state = State()
    reset_values(state, machine)
    return state


def reset_values(state: State, machine: Machine) -> None:
    """Make a state's values those of a machine whose driver is not loaded."""
    major, minor = machine["compute_capability"]
    state.values.update(
        {
            "simulated": "1",
            "modules": "",
            "version": "",
            "flavour": "",
            "model": machine["model"],
            "name": machine["name"],
            "arch": str(ARCHITECTURES[machine["architecture"]]),
            "cc_major": str(major),
            "cc_minor": str(minor),
            "memory_mib": str(machine["memory_mib"]),
            "power_w": str(machine["power_limit_w"]),
            "sms": str(machine["multiprocessors"]),
            "pci_device": str(int(machine["pci_device_id"], 16)),
            "pci_subsystem": str(int(machine["pci_subsystem_id"], 16)),
            "pcie_gen": str(machine["pcie_gen"]),
            "pcie_width": str(machine["pcie_width"]),
            "mig": str(int(machine["mig"])),
            "mig_instances": str(machine["mig_instances"]),
            "mig_compute": str(machine["mig_compute"]),
            "mig_memory": str(machine["mig_memory"]),
            "nvlinks": str(machine["nvlinks"]),
            "switches": str(len(machine["nvswitches"])),
            "switch_pci": ",".join(switch["pci"] for switch in machine["nvswitches"]),
            "switch_managers": str(len(machine["switch_managers"])),
            "fabric_needed": str(int(machine["fabric_manager"])),
            "fabric_nvml": str(int(machine["fabric_state_in_nvml"])),
            "fabric": str(FABRIC["not-started"]),
            "fabric_delay_ms": "0",
            "fabric_broken": "0",
            "event_seq": "0",
            "options": "{}",
        }
    )
    state.profiles = machine["mig_profiles"]


def probe_gpus(machine: Machine) -> list[dict[str, str]]:
    """GPUs that the driver finds on PCI, in NVML's order (bus number); the minors follow the enumeration."""
    present = [gpu for gpu in machine["gpus"] if pci.is_present(gpu["pci"])]
    rows = [gpu_row(gpu, minor) for minor, gpu in enumerate(present)]
    return sorted(rows, key=lambda row: row["pci"])


def gpu_row(gpu: Gpu, minor: int) -> dict[str, str]:
    """A healthy GPU in the live state."""
    mode = str(int(gpu["pci"] in inforom()))
    return {
        "minor": str(minor),
        "pci": gpu["pci"],
        "uuid": gpu["uuid"],
        "serial": gpu["serial"],
        "numa": str(gpu["numa_node"]),
        "lost": "0",
        "ecc": "0",
        "ecc_total": "0",
        "remapped": "0",
        "pending": "0",
        "throttle": "0",
        "temp": COOL_C,
        "power_mw": str(IDLE_MW),
        "limit_mw": "0",  # the model's own
        "util": "0",
        "used_mib": "0",
        "processes": "",  # PID:MiB,...
        "energy_mj": "0",  # until the moment that follows; since then the power that is above
        "energy_at_ms": str(time.monotonic_ns() // 1_000_000),
        "persistence": "0",
        "compute_mode": "0",
        "mig": mode,
        "mig_pending": mode,
    }


def hot_plug(state: State, machine: Machine) -> None:
    """The loaded driver takes the GPUs that it did not know, as after a PCI rescan."""
    if "nvidia" not in state.modules:
        return
    free = iter(sorted(set(range(len(machine["gpus"]))) - {int(row["minor"]) for row in state.gpus}))
    for gpu in machine["gpus"]:
        if pci.is_present(gpu["pci"]) and state.gpu(gpu["pci"]) is None:
            state.gpus.append(gpu_row(gpu, next(free)))
    state.gpus.sort(key=lambda row: row["pci"])


def load(path: Path, options: dict[str, str]) -> None:
    """Insert a simulated module (what insmod does)."""
    info = modinfo(path)
    if info.get("gpusmith_simulated") != "1":
        raise RefusedError(errno.ENOEXEC, f"{path} is not a simulated module")
    name = named(info["name"])
    if name not in BYTES:
        raise RefusedError(errno.ENOEXEC, f"the simulated kernel does not know the module {name}")
    machine = hardware()
    state = State.load()
    if name in state.modules:
        raise RefusedError(errno.EEXIST)
    _refuse_module(name, info, state)
    if name == "nvidia":
        _start_driver(machine, state, info)
    all_options = json.loads(state.values.get("options") or "{}")
    all_options[name] = options
    state.values["options"] = json.dumps(all_options, separators=(",", ":"))
    state.modules = [*state.modules, name]
    state.save()
    publish(state)
    device_nodes(name)


def _refuse_module(name: str, info: dict[str, str], state: State) -> None:
    """Reasons for which a kernel refuses a module before the module runs."""
    release = os.uname().release
    if info.get("vermagic", "").split(" ")[0] != release:
        klog(f"{name}: version magic '{info.get('vermagic')}' should be '{release}'", ERROR)
        raise RefusedError(errno.ENOEXEC)
    for needed in DEPENDS[name]:
        if needed not in state.modules:
            klog(f"{name}: Unknown symbol nvidia_register_module (err -2)", ERROR)
            raise RefusedError(errno.ENOENT)
        if state.values["version"] != info["version"]:
            klog(f"{name}: disagrees about version of symbol nvidia_register_module", ERROR)
            raise RefusedError(errno.EINVAL)
    if info.get(DEFECT) == "module":
        klog(f"{name}: Unknown symbol drm_client_setup (err -2)", ERROR)
        raise RefusedError(errno.ENOENT, "Unknown symbol in module, or unknown parameter (see dmesg)")


def _start_driver(machine: Machine, state: State, info: dict[str, str]) -> None:
    version = info["version"]
    flavour = "open" if "MIT" in info.get("license", "") else "proprietary"
    refuse_hardware(machine, version, flavour)
    time.sleep(delay_s("module_load"))
    reset_values(state, machine)
    state.values.update({"version": version, "flavour": flavour})
    state.gpus, state.xids = probe_gpus(machine), []
    if info.get(DEFECT) == "uuids":
        _rename(state.gpus, version)
    fault.show_all(machine, state)
    needs_firmware = flavour == "open" or machine["architecture"] not in ("volta", "turing")
    if needs_firmware and not list((FIRMWARE / version).glob("gsp_*.bin")):
        file = f"nvidia/{version}/gsp_ga10x.bin"
        for gpu in state.gpus:
            klog(f"nvidia {gpu['pci']}: Direct firmware load for {file} failed with error -2", WARNING)
            klog(f"NVRM: GPU {gpu['pci']}: RmInitAdapter failed! (0x61:0x56:1697)", ERROR)
        state.gpus = []
    major = majors()["nvidia-nvswitch"]
    klog(f"nvidia-nvlink: Nvlink Core is being initialized, major device number {major}")
    kind = "Open Kernel Module" if flavour == "open" else "Kernel Module"
    klog(f"NVRM: loading NVIDIA UNIX {kind} for x86_64  {version}  SIMULATED (major {FRONTEND_MAJOR})")


def _rename(gpus: list[dict[str, str]], version: str) -> None:
    """Give GPUs other UUIDs, the same at each load of a version."""
    for row in gpus:
        row["uuid"] = f"GPU-{uuid.uuid5(uuid.UUID(row['uuid'].removeprefix('GPU-')), version)}"


def refuse_hardware(machine: Machine, version: str, flavour: str) -> None:
    """Reasons for which a real driver's load ends with ENODEV."""
    gpus = [gpu for gpu in machine["gpus"] if pci.is_present(gpu["pci"])]
    reason = fault.load_refusal()
    of_gpu = ""
    if reason:
        pass
    elif not gpus:
        reason = "No NVIDIA GPU found."
    elif machine["open_module"] == "required" and flavour != "open":
        of_gpu = "requires use of the NVIDIA open kernel modules."
    elif machine["open_module"] == "unsupported" and flavour == "open":
        of_gpu = "is not supported by open nvidia.ko because it lacks a GPU System Processor (GSP)."
    elif int(version.split(".", 1)[0]) < machine["min_driver_branch"]:
        of_gpu = f"is not supported by the NVIDIA {version} driver release."
    if of_gpu:
        reason = f"The NVIDIA GPU {gpus[0]['pci']} installed in this system {of_gpu}"
    if reason:
        klog(f"NVRM: {reason}", ERROR)
        klog("NVRM: None of the NVIDIA devices were initialized.", ERROR)
        raise RefusedError(errno.ENODEV)


def device_nodes(name: str) -> None:
    """What the driver package's udev rule does on a real machine after its module appeared."""
    tool = "/usr/bin/nvidia-modprobe"
    if not os.access(tool, os.X_OK):
        return
    if name == "nvidia":
        call(tool, *(f"-c={row['minor']}" for row in State.load().gpus), "-c=255", check=False)
        for caps in ("mig/config", "mig/monitor"):
            if (paths.PROC / "nvidia" / "capabilities" / caps).exists():
                call(tool, "-f", f"/proc/driver/nvidia/capabilities/{caps}", check=False)
    elif name == "nvidia_uvm":
        call(tool, "-c=0", "-u", check=False)
    elif name == "nvidia_modeset":
        call(tool, "-m", check=False)


def unload(name: str, force: bool = False) -> None:
    """Remove a module; ``force`` whoever uses it."""
    state = State.load()
    if name not in state.modules:
        raise RefusedError(errno.ENOENT, f"Module {name} is not currently loaded")
    by = dependents(state, name)
    if by and not force:
        raise RefusedError(errno.EAGAIN, f"Module {name} is in use by: {' '.join(by)}")
    if not force and not lockable(name):
        raise RefusedError(errno.EAGAIN, f"Module {name} is in use")
    for other in by:
        unload(other, force=True)
    state = State.load()
    state.modules = [other for other in state.modules if other != name]
    if name == "nvidia":
        state.gpus, state.xids, state.instances = [], [], []
        state.values["fabric"] = str(FABRIC["not-started"])
        state.values["version"] = state.values["flavour"] = ""
    state.save()
    publish(state)


def reload() -> None:
    """Load the driver that is installed, in place of the one that is loaded; its daemons begin anew."""
    if "nvidia" in State.load().modules:
        call("systemctl", "stop", *DAEMONS, check=False)
        unload("nvidia", force=True)
    for name in ("nvidia", "nvidia-uvm"):
        # It comes back to this program, which holds the lock already.
        environment = {**os.environ, "SIMGPU_LOCKED": "1"}
        subprocess.run(["modprobe", name], env=environment, stdin=subprocess.DEVNULL)
    for unit in DAEMONS:
        if call("systemctl", "is-enabled", "-q", unit, check=False) == 0:
            call("systemctl", "restart", unit, check=False)


def change_setting(address: str, name: str, number: int) -> None:
    """Keep a setting of a GPU until the driver is unloaded."""
    state = State.load()
    row = state.gpu(address)
    if row is None:
        raise RefusedError(errno.ENODEV, f"the driver does not drive GPU {address}")
    row[name] = str(number)
    state.save()


def fabric(name: str) -> None:
    """What the fabric manager reports; when it begins it learns how long its switches take."""
    state = State.load()
    state.values["fabric"] = str(FABRIC[name])
    state.values["fabric_delay_ms"] = str(int(delay_s("fabric") * 1000))
    state.save()
