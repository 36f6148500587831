"""What firmware and kernel do before init: boot_id, /dev/kmsg, module lists, PCI and /proc trees."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import time
import uuid
from pathlib import Path

from simgpu import fault, paths, pci
from simgpu.builtin import INFINIBAND, host_modules
from simgpu.driver import fresh_state
from simgpu.errors import RefusedError
from simgpu.files import read, write
from simgpu.hardware import Machine, delay_s, hardware
from simgpu.processes import call
from simgpu.publish import publish
from simgpu.state import State

NVIDIA = "0x10de"


def boot() -> None:
    """Boot the simulated hardware, if the machine has any."""
    paths.RUN.mkdir(parents=True, exist_ok=True)
    write(paths.RUN / "boot_id", f"{uuid.uuid4()}\n")
    call("mount", "--bind", str(paths.RUN / "boot_id"), "/proc/sys/kernel/random/boot_id")
    hide_host()
    if not paths.HARDWARE.exists():
        host_modules()
        return
    machine = hardware()
    host_modules(INFINIBAND if machine["switch_managers"] else ())
    time.sleep(delay_s("boot"))
    fault.forget_cured()
    state = fresh_state(machine)
    state.save()
    sysfs(machine)
    fault.show_all(machine, state)
    state.save()
    procfs(state)


def hide_host() -> None:
    """The container runtime gives a privileged container the host's kernel log and devices; a machine has its own."""
    kmsg = paths.DEV / "kmsg"
    try:
        kmsg.unlink(missing_ok=True)
        os.mknod(kmsg, 0o644 | stat.S_IFCHR, os.makedev(1, 3))
    except OSError:
        call("mount", "--bind", "/dev/null", str(kmsg))
    for node in list(paths.DEV.glob("nvidia*")):
        if node.is_dir():
            shutil.rmtree(node, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                node.unlink()


def sysfs(machine: Machine) -> None:
    """Own trees over /sys/module and /sys/bus/pci; what the host has there stays visible, NVIDIA's excepted."""
    hosts = paths.RUN / "host"
    for name, path in (("module", paths.MODULES), ("pci", paths.PCI)):
        host = hosts / name
        host.mkdir(parents=True, exist_ok=True)
        if not path.is_dir():
            raise RefusedError(
                errno.ENODEV, f"{path} is missing on this host: no place for the simulated tree"
            )
        call("mount", "--rbind", str(path), str(host))
        call("mount", "-t", "tmpfs", "-o", "mode=755", "simgpu", str(path))
    for entry in (hosts / "module").iterdir():
        if not entry.name.startswith("nvidia"):
            (paths.MODULES / entry.name).symlink_to(entry)
    _host_pci(hosts / "pci")
    for gpu in machine["gpus"]:
        pci.add_gpu(machine, gpu["pci"])
    for switch in machine["nvswitches"]:
        pci.add_switch(switch["pci"], switch["device_id"])
    for manager in machine["switch_managers"]:
        pci.add_manager(manager["pci"], manager["device_id"])


def _host_pci(host: Path) -> None:
    devices, drivers = paths.PCI / "devices", paths.PCI / "drivers"
    devices.mkdir()
    drivers.mkdir()
    for entry in host.iterdir():
        if entry.name == "devices":
            for device in entry.iterdir():
                if read(device / "vendor").strip() != NVIDIA:
                    (devices / device.name).symlink_to(device.readlink())
        elif entry.name == "drivers":
            for driver in entry.iterdir():
                if not driver.name.startswith("nvidia"):
                    (drivers / driver.name).symlink_to(driver)
        else:
            (paths.PCI / entry.name).symlink_to(entry)


def procfs(state: State) -> None:
    """Own /proc/driver, and files over /proc/devices and /proc/modules."""
    call("mount", "-t", "tmpfs", "-o", "mode=555", "simgpu", str(paths.PROC))
    lines = read(Path("/proc/devices")).splitlines()
    host = paths.RUN / "host"
    (host / "devices").write_text("\n".join(line for line in lines if "nvidia" not in line) + "\n")
    publish(state)
    call("mount", "--bind", str(paths.RUN / "devices"), "/proc/devices")
    if Path("/proc/modules").exists():
        lines = read(Path("/proc/modules")).splitlines()
        (host / "modules").write_text("".join(f"{line}\n" for line in lines if not line.startswith("nvidia")))
        publish(state)
        call("mount", "--bind", str(paths.RUN / "modules"), "/proc/modules")


def coldplug() -> None:
    """Load drivers by the modalias of the PCI devices, as udev does at boot."""
    for folder in sorted((paths.PCI / "devices").iterdir()):
        if not folder.is_symlink() and (alias := read(folder / "modalias").strip()):
            call("modprobe", "-b", "-q", alias, check=False)
