"""Which GPUs there are, their device nodes and the links to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpusmith.problems import Cure
from tests.faults.fault import ADDRESS, UUID, Fault, Record, repairs, sets


def device(path: str, **changes: Any) -> Callable[[Record], object]:
    return sets("dev", "nodes", path, **changes)


def gpu_missing(record: Record) -> None:
    del record["pci"]["gpus"][1]
    del record["nvml"]["gpus"][1]
    record["dev"]["gpu_minors"].remove(0)


def given_to_vfio(record: Record) -> None:
    record["pci"]["gpus"][1]["driver"] = "vfio-pci"
    del record["nvml"]["gpus"][1]
    record["dev"]["gpu_minors"].remove(0)


LINKS = ("195:0", "195:1", "195:2", "195:3", "195:255", "511:0", "511:1")


FAULTS = {
    "gpu-missing": Fault(
        gpu_missing,
        "nodes.gpu-count",
        ("3 on PCI", "4 in the inventory", "1 of 4 GPUs are missing", f"none at PCI {ADDRESS}"),
        frozenset({"nodes.cdi"}),
        repairs=repairs(nvidia_container_toolkit={Cure.CDI}),
    ),
    "device-node-missing": Fault(
        lambda record: record["dev"]["gpu_minors"].remove(0),
        "nodes.gpu-count",
        ("3 in /dev", "GPU 1", "/dev/nvidia0"),
    ),
    "device-node-too-many": Fault(
        sets("dev", gpu_minors=[0, 1, 2, 3, 4], char_links=[*LINKS, "195:4"]),
        "nodes.gpu-count",
        ("5 in /dev", "/dev/nvidia4 belongs to no GPU"),
    ),
    "another-board": Fault(
        sets("pci", "gpus", 1, device_id="10de:2335"),
        "nodes.gpu-model",
        ("GPU 1", "10de:2335", "h100-sxm"),
    ),
    "no-char-link": Fault(
        lambda record: record["dev"]["char_links"].remove("195:0"),
        "nodes.char-links",
        ("/dev/char/195:0",),
        repairs=repairs(nvidia_container_toolkit={Cure.LINKS}),
    ),
    "no-char-link-of-uvm": Fault(
        lambda record: record["dev"]["char_links"].remove("511:0"),
        "nodes.char-links",
        ("/dev/char/511:0",),
        repairs=repairs(nvidia_container_toolkit={Cure.LINKS}),
    ),
    "other-kernel": Fault(sets("host", kernel="6.12"), "nodes.uniformity", ("kernel", "6.12", "6.1.0")),
    "same-number-other-addresses": Fault(
        sets("pci", "gpus", 1, address="0000:99:00.0"),
        "nodes.gpu-count",
        ("0000:99:00.0 is unknown to NVML", "GPU 1", "not on the PCI bus"),
    ),
    "same-number-other-minors": Fault(
        sets("dev", gpu_minors=[0, 1, 2, 7], char_links=[*LINKS, "195:7"]),
        "nodes.gpu-count",
        ("GPU 2", "no device node /dev/nvidia3", "/dev/nvidia7 belongs to no GPU"),
    ),
    "uuid-twice": Fault(sets("nvml", "gpus", 2, uuid=UUID), "nodes.gpu-count", (UUID, "2 GPUs")),
    "no-uvm-device": Fault(
        sets("dev", uvm=False),
        "nodes.gpu-count",
        ("/dev/nvidia-uvm", "CUDA"),
        repairs=repairs(nvidia_driver={Cure.LOAD}),
    ),
    "no-control-device": Fault(
        sets("dev", control=False),
        "nodes.gpu-count",
        ("/dev/nvidiactl",),
        repairs=repairs(nvidia_driver={Cure.LOAD}),
    ),
    "device-node-is-a-file": Fault(
        device("/dev/nvidia3", kind="file", major=None, minor=None),
        "nodes.gpu-count",
        ("/dev/nvidia3 of GPU 2", "a regular file, not a character device"),
    ),
    "device-node-is-a-link": Fault(
        device("/dev/nvidia3", kind="link", major=None, minor=None),
        "nodes.gpu-count",
        ("/dev/nvidia3", "a symbolic link"),
    ),
    "device-node-closed": Fault(
        device("/dev/nvidia3", mode=0),
        "nodes.gpu-count",
        ("/dev/nvidia3 of GPU 2", "mode 0000", "0666"),
    ),
    "device-node-of-another-gpu": Fault(
        device("/dev/nvidia3", minor=2),
        "nodes.gpu-count",
        ("/dev/nvidia3 of GPU 2", "device 195:2", "must be 195:3"),
    ),
    "device-node-of-another-driver": Fault(
        device("/dev/nvidia3", major=1),
        "nodes.gpu-count",
        ("/dev/nvidia3 of GPU 2", "device 1:3", "must be 195:3"),
    ),
    "control-device-of-another-driver": Fault(
        device("/dev/nvidiactl", major=1, minor=3),
        "nodes.gpu-count",
        ("/dev/nvidiactl", "device 1:3", "must be 195:255"),
    ),
    "uvm-device-of-an-earlier-load": Fault(
        device("/dev/nvidia-uvm", major=510),
        "nodes.gpu-count",
        ("/dev/nvidia-uvm is device 510:0", "must be 511:0"),
    ),
    "uvm-device-is-a-file": Fault(
        device("/dev/nvidia-uvm", kind="file", major=None, minor=None),
        "nodes.gpu-count",
        ("/dev/nvidia-uvm", "a regular file"),
    ),
    "no-uvm-tools-device": Fault(
        sets("dev", uvm_tools=False),
        "nodes.gpu-count",
        ("/dev/nvidia-uvm-tools", "profilers"),
        repairs=repairs(nvidia_driver={Cure.LOAD}),
    ),
    "no-device-node-at-all": Fault(
        sets("dev", gpu_minors=[], control=False, uvm=False, uvm_tools=False, char_links=[], nodes={}),
        "nodes.gpu-count",
        ("0 in /dev", "/dev/nvidiactl is missing"),
        repairs=repairs(nvidia_driver={Cure.LOAD}),
    ),
    "device-nodes-unread": Fault(
        sets("dev", nodes=None),
        "nodes.gpu-count",
        ("device nodes could not be read",),
    ),
    "given-to-vfio": Fault(
        given_to_vfio,
        "nodes.gpu-count",
        (f"PCI {ADDRESS} is unknown to NVML", "vfio-pci"),
        frozenset({"nodes.cdi"}),
        repairs=repairs(nvidia_container_toolkit={Cure.CDI}),
    ),
    "mig-on-one-gpu": Fault(
        sets("nvml", "gpus", 1, mig_mode="enabled"),
        "nodes.gpu-layout",
        ("GPU 1", UUID, "MIG"),
        frozenset({"nodes.uniformity"}),
    ),
    "mig-after-reset": Fault(
        sets("nvml", "gpus", 1, mig_mode_pending="enabled"),
        "nodes.gpu-layout",
        ("GPU 1", "next reset"),
    ),
    "switches-fewer-than-others": Fault(
        sets("pci", nvswitches=[]), "nodes.uniformity", ("NVSwitches", "'0'", "'4'")
    ),
    "slot-narrower-than-others": Fault(
        lambda record: [gpu.update(pcie_width=8, pcie_width_max=8) for gpu in record["nvml"]["gpus"]],
        "nodes.uniformity",
        ("PCIe lanes", "8", "16"),
        frozenset({"nodes.pcie-width"}),
    ),
}
