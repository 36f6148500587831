"""NVSwitches and the fabric manager."""

from __future__ import annotations

from gpusmith.problems import Cure
from tests.faults.fault import Fault, repairs, sets

SXID = {
    "pci": "0000:81:00.0",
    "code": 20034,
    "time_unix": 1.0,
    "message": "SXid 20034, Fatal, Link 24 LTSSM Fault Up",
}


FAULTS = {
    "fabric-that-nobody-completes": Fault(
        lambda record: (
            record["pci"].update(nvswitches=[]),
            record["nvml"]["gpus"][1].update(fabric_state="in_progress", fabric_status=None),
        ),
        "nodes.fabric",
        ("GPU 1", "waits for its NVLink fabric", "no NVSwitches"),
        frozenset({"nodes.uniformity"}),
    ),
    "fabric-manager-down": Fault(
        sets("services", "nvidia-fabricmanager", active="inactive"),
        "nodes.fabric",
        ("nvidia-fabricmanager", "inactive"),
        repairs=repairs(nvidia_driver={Cure.SERVICES}),
    ),
    "fabric-of-one-gpu": Fault(
        sets("nvml", "gpus", 1, fabric_state="in_progress", fabric_status=None),
        "nodes.fabric",
        ("GPU 1", "in_progress"),
    ),
    "switch-fatal": Fault(
        lambda record: record["sxids"].append({**SXID, "fatal": True}),
        "nodes.fabric",
        ("0000:81:00.0", "SXid 20034", "Link 24"),
    ),
    "switch-log-unreadable": Fault(
        lambda record: record.update(sxids=None), "nodes.fabric", ("kernel's log could not be read",)
    ),
    "switch-missing": Fault(
        lambda record: record["pci"]["nvswitches"].pop(),
        "nodes.fabric",
        ("3 NVSwitches", "has 4"),
        frozenset({"nodes.uniformity"}),
    ),
    "fabric-manager-disabled": Fault(
        sets("services", "nvidia-fabricmanager", enabled="disabled"),
        "nodes.fabric",
        ("'nvidia-fabricmanager' runs but is disabled",),
        repairs=repairs(nvidia_driver={Cure.SERVICES}),
    ),
}
