"""The machine's PCI devices in /sys/bus/pci."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

from simgpu import paths
from simgpu.files import link, read, write
from simgpu.hardware import Machine, hardware
from simgpu.state import State

SWITCH_CLASS = "0x068000"
NVIDIA, MELLANOX = 0x10DE, 0x15B3
# Vital product data (PCI 3.0, appendix I): a name, and a field of the vendor that says what the function is for.
VPD_NAME, VPD_FIELD = b"SIMULATED ConnectX-7 (gpusmith lab)", b"V2\x06SW_MNG"
SPEEDS = {3: "8.0 GT/s PCIe", 4: "16.0 GT/s PCIe", 5: "32.0 GT/s PCIe", 6: "64.0 GT/s PCIe"}
BAR_FLAGS = (0x140204, 0x14220C)


def folder(address: str) -> Path:
    """Where a device is shown."""
    return paths.PCI / "devices" / address


def is_present(address: str) -> bool:
    """Whether a device is on PCI."""
    return folder(address).is_dir()


def take_away(address: str) -> None:
    """Take a device off the bus; its driver may not have noticed yet."""
    shutil.rmtree(folder(address), ignore_errors=True)
    (paths.PCI / "drivers" / "nvidia" / address).unlink(missing_ok=True)


def add_gpu(machine: Machine, address: str) -> None:
    """Show one GPU."""
    numa = next((gpu["numa_node"] for gpu in machine["gpus"] if gpu["pci"] == address), 0)
    ids = (machine["pci_device_id"], machine["pci_subsystem_id"], machine["pci_class"])
    _add(address, ids, machine["pcie_gen"], machine["pcie_width"], numa)


def add_switch(address: str, device_id: str) -> None:
    """Show one NVSwitch."""
    _add(address, (device_id, "0x1796", SWITCH_CLASS), generation=4, width=2, numa=0)


def add_manager(address: str, device_id: str) -> None:
    """Show one network function by which NVLink 5 switches are managed."""
    _add(address, (device_id, "0x0049", "0x020700"), generation=5, width=2, numa=0, vendor=MELLANOX)
    vpd = b"".join(
        struct.pack("<BH", tag, len(data)) + data for tag, data in ((0x82, VPD_NAME), (0x90, VPD_FIELD))
    )
    (folder(address) / "vpd").write_bytes(vpd + b"\x78")


def _add(
    address: str, ids: tuple[str, str, str], generation: int, width: int, numa: int, vendor: int = NVIDIA
) -> None:
    place = folder(address)
    place.mkdir(exist_ok=True)
    device, subsystem, code = (int(text, 16) for text in ids)
    config = bytearray(256)
    struct.pack_into("<HHHH", config, 0, vendor, device, 0x0546, 0x0010)
    config[8:12] = bytes((0xA1, code & 0xFF, code >> 8 & 0xFF, code >> 16 & 0xFF))
    struct.pack_into("<HH", config, 0x2C, vendor, subsystem)
    (place / "config").write_bytes(config)
    modalias = (
        f"pci:v{vendor:08X}d{device:08X}sv{vendor:08X}sd{subsystem:08X}"
        f"bc{code >> 16:02X}sc{code >> 8 & 0xFF:02X}i{code & 0xFF:02X}"
    )
    bars = [(int(address[5:7], 16) << 32) + (number << 28) for number in range(len(BAR_FLAGS))]
    lines = [
        f"0x{bar:016x} 0x{bar + 0xFFFFFF:016x} 0x{flags:016x}"
        for bar, flags in zip(bars, BAR_FLAGS, strict=True)
    ]
    lines += [f"0x{0:016x} 0x{0:016x} 0x{0:016x}"] * 11
    for name, value in {
        "vendor": f"0x{vendor:04x}",
        "device": ids[0],
        "class": ids[2],
        "revision": "0xa1",
        "subsystem_vendor": f"0x{vendor:04x}",
        "subsystem_device": ids[1],
        "irq": "0",
        "enable": "1",
        "numa_node": str(numa),
        "local_cpulist": "0",
        "modalias": modalias,
        "resource": "\n".join(lines),
        "current_link_speed": SPEEDS[generation],
        "max_link_speed": SPEEDS[generation],
        "current_link_width": str(width),
        "max_link_width": str(width),
        "uevent": f"PCI_CLASS={code:X}\nPCI_ID={vendor:04X}:{device:04X}\nPCI_SLOT_NAME={address}\nMODALIAS={modalias}",
    }.items():
        write(place / name, value + "\n")
    link(place / "subsystem", "../../../pci")


def show_drivers(state: State) -> None:
    """Link the devices with the drivers that drive them now."""
    loaded = "nvidia" in state.modules
    driver = paths.PCI / "drivers" / "nvidia"
    driven = {row["pci"] for row in state.gpus} if loaded else set()
    if loaded:
        driver.mkdir(exist_ok=True)
        link(driver / "module", "../../../../module/nvidia")
    for place in (paths.PCI / "devices").iterdir():
        if place.is_symlink() or read(place / "class").strip() == SWITCH_CLASS:
            continue
        if not (place / "config").exists():
            continue
        if place.name in driven:
            link(place / "driver", "../../drivers/nvidia")
            link(driver / place.name, f"../../devices/{place.name}")
        else:
            (place / "driver").unlink(missing_ok=True)
    if not loaded:
        shutil.rmtree(driver, ignore_errors=True)
    for switch in hardware()["nvswitches"]:
        if loaded:
            (paths.PCI / "drivers" / "nvidia-nvswitch").mkdir(exist_ok=True)
            link(folder(switch["pci"]) / "driver", "../../drivers/nvidia-nvswitch")
        else:
            (folder(switch["pci"]) / "driver").unlink(missing_ok=True)
