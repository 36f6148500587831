"""A site with many nodes: an inventory as inventory/example is laid out, and an ssh that answers for each node with a record."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.unit.records import healthy_record

GPUS = 8
DRIVER, OLD_DRIVER = "580.178.04", "570.211.01"
IN_A_RACK = 20
BOOT, MACHINE = "boot-", "machine-"
SLOTS = ("18", "2a", "3a", "5d", "9a", "ab", "ba", "db")
SSH = """#!/bin/sh
# Answers as the probe of the node that a word names.
for word in "$@"; do
    case $word in
        *gpu-[0-9][0-9][0-9][0-9][0-9]*) exec cat "{folder}/records/$(expr "$word" : ".*\\(gpu-[0-9]*\\)").json" ;;
    esac
done
exit 255
"""
ALL: dict[str, Any] = {
    "ansible_user": "root",
    "gpusmith_kubeconfig": "{{ site_folder ~ '/kubeconfig' }}",
    "containerd_version": "2.3.7",
    "nvidia_container_toolkit_version": "1.20.1",
    "kubernetes_node_version": "1.36.3",
}
GPU_NODES: dict[str, Any] = {
    "gpusmith_gpu_model": "h100-sxm",
    "gpusmith_gpu_count": GPUS,
    "nvidia_driver_version": DRIVER,
    "nvidia_driver_extra_modules": ["nvidia_peermem"],
    "nvidia_driver_module_parameters": {"NVreg_EnableStreamMemOPs": 1},
    "validation_images": {"cuda": "r/pytorch:1", "pytorch": "r/pytorch:1", "tensorflow": "r/tensorflow:1"},
}


def name_of(index: int) -> str:
    """Of a node."""
    return f"gpu-{index:05d}"


def _old_driver(record: dict[str, Any]) -> None:
    """All of it is of another branch; the devices' specifications were written before."""
    record["module"] |= {"installed_version": OLD_DRIVER, "loaded_version": OLD_DRIVER}
    record["library"] |= {"nvml_version": OLD_DRIVER, "cuda_version": OLD_DRIVER}
    record["nvml"]["driver_version"] = OLD_DRIVER
    for name, package in record["packages"].items():
        if name.startswith(("nvidia-driver", "libcuda", "libnvidia-ml", "nvidia-persistenced")):
            package["version"] = f"{OLD_DRIVER}-1"


def _not_joined(record: dict[str, Any]) -> None:
    for gpu in record["nvml"]["gpus"]:
        gpu |= {"fabric_state": "in_progress", "fabric_status": None}


def _bad_memory(record: dict[str, Any]) -> None:
    number = int(record["kubernetes"]["node_name"].removeprefix("gpu-"))
    record["nvml"]["gpus"][number % GPUS]["ecc_uncorrected"] = number // 100


def _lost_gpu(record: dict[str, Any]) -> None:
    record["nvml"]["gpus"][5] |= {
        "error": "GPU is lost",
        "uuid": None,
        "name": None,
        "minor": None,
        "pci": None,
    }


FAULTS: list[tuple[range, Callable[[dict[str, Any]], None]]] = [
    (range(100, 118), _old_driver),
    (range(140, 157), _not_joined),
    (range(203, 283, 37), _bad_memory),
    (range(299, 300), _lost_gpu),
]
"""What is wrong with which nodes of a broken site: 39 of them, for four reasons."""


def make(nodes: int, folder: Path, broken: bool = False) -> Path:
    """Write it; the inventory's folder. `folder/bin` is for the beginning of PATH."""
    inventory = folder / "inventory"
    for made in (inventory / "group_vars", folder / "records", folder / "bin"):
        made.mkdir(parents=True, exist_ok=True)
    racks: dict[str, Any] = {
        f"rack_{first // IN_A_RACK:02d}": {
            "hosts": {name_of(index): {} for index in range(first, min(first + IN_A_RACK, nodes))}
        }
        for first in range(0, nodes, IN_A_RACK)
    }
    hosts: dict[str, Any] = {"gpu_nodes": {"children": racks}}
    (inventory / "hosts.yml").write_text(yaml.safe_dump(hosts))
    values = {**ALL, "site_folder": str(folder)}
    (inventory / "group_vars" / "all.yml").write_text(yaml.safe_dump(values))
    (inventory / "group_vars" / "gpu_nodes.yml").write_text(yaml.safe_dump(GPU_NODES))
    ssh = folder / "bin" / "ssh"
    ssh.write_text(SSH.format(folder=folder))
    ssh.chmod(0o755)
    base = healthy()
    for index in range(nodes):
        made_record = record(base, index)
        for where, spoil in FAULTS if broken else ():
            if index in where:
                spoil(made_record)
        (folder / "records" / f"{name_of(index)}.json").write_text(json.dumps(made_record))
    return inventory


def healthy() -> dict[str, Any]:
    """The unit tests' healthy node, with eight real GPUs."""
    base = healthy_record()
    base["packages"].pop("nvidia-imex", None)
    base["services"].pop("nvidia-imex", None)
    base["managed_files"] = {}
    base["library"] |= {"simulated": False, "simulated_marker": None}
    base["log"]["source"] = "kernel"
    addresses = [f"0000:{slot}:00.0" for slot in SLOTS]
    base["pci"]["gpus"] = [
        {"address": address, "device_id": "10de:2330", "class": "0x030200", "driver": "nvidia"}
        for address in addresses
    ]
    base["dev"]["gpu_minors"] = list(range(GPUS))
    base["dev"]["char_links"] = [f"195:{n}" for n in range(GPUS)] + ["195:255", "511:0", "511:1"]
    for n in range(GPUS):
        base["dev"]["nodes"][f"/dev/nvidia{n}"] = {
            "kind": "char", "major": 195, "minor": n, "mode": 0o666, "uid": 0, "gid": 0,
        }  # fmt: skip
    base["cdi"]["devices"] = [f"nvidia.com/gpu={n}" for n in (*range(GPUS), "all")]
    sets = {**{str(n): [n] for n in range(GPUS)}, "all": list(range(GPUS))}
    base["cdi"]["specs"][0]["devices"] = [
        {
            "name": name,
            "nodes": [
                {"path": f"/dev/nvidia{n}", "host_path": f"/dev/nvidia{n}", "numbers": None} for n in those
            ],
        }
        for name, those in sets.items()
    ]
    gpu = base["nvml"]["gpus"][0]
    base["nvml"]["gpus"] = [{**gpu, "index": n, "minor": n, "pci": addresses[n]} for n in range(GPUS)]
    base["allocations"] = {"devices": {}, "claimants": []}
    return base


def record(base: dict[str, Any], index: int) -> dict[str, Any]:
    """What the probe says of a healthy node with a number."""
    made, name = copy.deepcopy(base), name_of(index)
    uuids = [f"GPU-{index:08x}-1111-2222-3333-{n:012x}" for n in range(GPUS)]
    made["host"] |= {"hostname": name, "boot_id": BOOT + name, "machine_id": MACHINE + name}
    made["kubernetes"]["node_name"] = name
    for gpu, uuid in zip(made["nvml"]["gpus"], uuids, strict=True):
        gpu["uuid"] = uuid
    made["cdi"]["plugin_specs"][0]["devices"] = [
        {"name": uuid, "nodes": [{"path": f"/dev/nvidia{n}", "host_path": None, "numbers": f"195:{n}"}]}
        for n, uuid in enumerate(uuids)
    ]
    return made


def suite(root: Path, cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A run of the suite, started in a folder in or below which make() wrote the programs that stand in."""
    programs = os.pathsep.join(map(str, (cwd / "bin", cwd / "site" / "bin")))
    options = ["-p", "no:cacheprovider", "--report-dir", str(cwd / "reports")]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(root / "validation"), *words],
        cwd=cwd,
        env={**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
