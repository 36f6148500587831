"""A healthy node as the probe records it, hosts as an inventory describes them, and a cluster in memory."""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpusmith import models
from gpusmith.inventory import Host, build
from gpusmith.node.facts import NodeFacts
from gpusmith.node.records import parse

Record = dict[str, Any]
VERSION = "580.178.04"
UUIDS = [f"GPU-0000000{n}-1111-2222-3333-44444444444{n}" for n in range(4)]
ADDRESSES = ["0000:18:00.0", "0000:2a:00.0", "0000:3a:00.0", "0000:5d:00.0"]
# Minors in another order than NVML's, as on real boards.
MINORS = [1, 0, 3, 2]


def _gpu(index: int) -> Record:
    return {
        "index": index, "uuid": UUIDS[index], "name": "NVIDIA H100 80GB HBM3", "minor": MINORS[index], "pci": ADDRESSES[index],
        "memory_mib": 81559, "ecc_mode": "enabled", "ecc_uncorrected": 0, "remap_pending": False, "remap_failed": False,
        "throttle_reasons": [], "mig_mode": "disabled", "mig_mode_pending": "disabled", "processes": [],
        "pcie_gen": 5, "pcie_width": 16, "pcie_gen_max": 5, "pcie_width_max": 16,
        "fabric_state": "completed", "fabric_status": "success", "error": None, "unsupported": [], "unreadable": {},
    }  # fmt: skip


def _device(major: int, minor: int) -> Record:
    return {"kind": "char", "major": major, "minor": minor, "mode": 0o666, "uid": 0, "gid": 0}


def cdi_spec(path: str = "/var/run/cdi/nvidia.yaml", priority: int = 1) -> Record:
    """A specification as nvidia-ctk writes it: devices by index, paths by minor."""
    minors = {**{str(n): [MINORS[n]] for n in range(4)}, "all": list(range(4))}
    return {
        "path": path, "priority": priority, "driver_version": VERSION, "problem": None,
        "devices": [
            {"name": name, "nodes": [{"path": f"/dev/nvidia{n}", "host_path": f"/dev/nvidia{n}", "numbers": None} for n in those]}
            for name, those in minors.items()
        ],
    }  # fmt: skip


def plugin_spec() -> Record:
    """The device plugin's own specification: devices by UUID, nodes with their numbers."""
    return {
        "path": "/var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json", "priority": 1, "driver_version": VERSION, "problem": None,
        "devices": [
            {
                "name": UUIDS[n],
                "nodes": [{"path": f"/dev/nvidia{MINORS[n]}", "host_path": None, "numbers": f"195:{MINORS[n]}"}],
            }
            for n in range(4)
        ],
    }  # fmt: skip


def healthy_record() -> Record:
    """What the probe prints on a node of the lab after site.yml."""
    package = {"version": f"{VERSION}-1", "held": True}
    running = {"active": "active", "enabled": "enabled", "started_unix": 1.0, "changed": False}
    return {
        "schema": "gpusmith.probe/1",
        "host": {"hostname": "gpu-1", "boot_id": "b", "kernel": "6.1.0", "uptime_s": 100.0, "time_unix": 2.0},
        "packages": {
            "nvidia-driver-cuda": dict(package), "libcuda1": dict(package), "libnvidia-ml1": dict(package),
            "nvidia-persistenced": dict(package), "nvidia-fabricmanager": dict(package),
            "containerd.io": {"version": "2.3.7-1", "held": True}, "kubelet": {"version": "1.36.3-1.1", "held": True},
            "nvidia-container-toolkit": {"version": "1.20.1-1", "held": True},
        },
        "pci": {
            "gpus": [{"address": a, "device_id": "10de:2330", "class": "0x030200", "driver": "nvidia"} for a in ADDRESSES],
            "nvswitches": [{"address": f"0000:8{n}:00.0"} for n in range(4)],
        },
        "module": {
            "installed_version": VERSION, "loaded_version": VERSION, "flavour": "open", "refcount": 1, "nouveau_loaded": False,
            "firmware": ["gsp_ga10x.bin"], "loaded_unix": 1.0,
        },
        "library": {
            "nvml_version": VERSION, "cuda_version": VERSION, "simulated": True, "simulated_marker": "m",
            "nvidia_smi": "/usr/bin/nvidia-smi",
            "files": {
                name: {"path": f"/usr/lib/x86_64-linux-gnu/lib{name}.so.{VERSION}", "fault": None, "shadows": []}
                for name in ("nvidia-ml", "cuda")
            },
        },
        "nvml": {"init_code": 0, "error": None, "driver_version": VERSION, "gpus": [_gpu(n) for n in range(4)]},
        "dev": {
            "gpu_minors": [0, 1, 2, 3], "control": True, "uvm": True, "uvm_tools": True,
            "char_links": ["195:0", "195:1", "195:2", "195:3", "195:255"],
            "nodes": {
                **{f"/dev/nvidia{n}": _device(195, n) for n in range(4)},
                "/dev/nvidiactl": _device(195, 255), "/dev/nvidia-uvm": _device(511, 0), "/dev/nvidia-uvm-tools": _device(511, 1),
            },
            "file_mode": 0o666, "file_uid": 0, "file_gid": 0, "uvm_major": 511,
        },
        "services": {
            name: dict(running)
            for name in (
                "containerd", "kubelet", "nvidia-persistenced", "nvidia-fabricmanager",
                "gpusmith-nvidia-load", "gpusmith-gpu-devices", "nvidia-cdi-refresh",
                "systemd-modules-load", "systemd-sysctl",
            )
        },
        "xids": [],
        "sxids": [],
        "xids_truncated": False,
        "log": {"source": "identifier", "begins_unix": 1.0},
        "containerd": {
            "version": "2.3.7", "digest": "d", "config_changed_unix": 1.0, "noted_digest": "d", "noted_unix": 1.0,
            "runtime_binary_found": True,
            "effective": {
                "runtime_nvidia": True, "runtime_binary": "nvidia-container-runtime", "systemd_cgroup": True, "cdi": True,
                "cri_disabled": False, "default_runtime": "runc", "default_binary": None, "cdi_spec_dirs": None,
            },
        },
        "cdi": {
            "driver_version": VERSION, "devices": [f"nvidia.com/gpu={name}" for name in (*range(4), "all")],
            "specs": [cdi_spec()],
            "plugin_specs": [plugin_spec()],
        },
        "kubernetes": {"kubelet_version": "1.36.3", "joined": True, "node_name": "gpu-1"},
        "system": {
            "swap_active": False, "swap_areas": [], "swap_fstab": [], "swap_target_masked": True,
            "modules": {"overlay": True, "br_netfilter": True},
            "sysctl": {
                "net.ipv4.ip_forward": "1", "net.bridge.bridge-nf-call-iptables": "1", "net.bridge.bridge-nf-call-ip6tables": "1",
            },
        },
        "boot": {
            "modules": {
                name: {"file": "/etc/modules-load.d/gpusmith-host-baseline.conf", "forbidden_by": None}
                for name in ("overlay", "br_netfilter")
            },
            "sysctl": {
                name: {"value": "1", "files": ["/etc/sysctl.d/gpusmith-host-baseline.conf"]}
                for name in (
                    "net.ipv4.ip_forward", "net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-ip6tables",
                )
            },
            "swap_units": [],
        },
        "errors": [],
    }  # fmt: skip


def other_record() -> Record:
    """A healthy node beside it: another machine with other GPUs."""
    record = healthy_record()
    record["host"].update(hostname="gpu-2", boot_id="other")
    record["kubernetes"]["node_name"] = "gpu-2"
    for gpu in record["nvml"]["gpus"]:
        gpu["uuid"] = gpu["uuid"].replace("GPU-0", "GPU-9")
    return record


def host_variables(**changes: Any) -> dict[str, Any]:
    """What ansible-inventory says of a lab node; None takes a variable out."""
    values: dict[str, Any] = {
        "ansible_host": "192.0.2.1",
        "gpusmith_simulated": True,
        "gpusmith_gpu_model": "h100-sxm",
        "gpusmith_gpu_count": 4,
        "gpusmith_kubeconfig": "/nowhere/kubeconfig",
        "nvidia_driver_version": VERSION,
        "containerd_version": "2.3.7",
        "nvidia_container_toolkit_version": "1.20.1",
        "kubernetes_node_version": "1.36.3",
        "validation_image_cuda": "registry.example/pytorch:1",
        "validation_image_pytorch": "registry.example/pytorch:1",
        "validation_image_tensorflow": "registry.example/tensorflow:1",
        "validation_timeout_pod_s": 5,
    }
    values.update(changes)
    return {key: value for key, value in values.items() if value is not None}


def make_host(name: str = "gpu-1", **changes: Any) -> Host:
    """A host of an inventory."""
    return build({"gpu_nodes": {"hosts": [name]}}, {name: host_variables(**changes)}, "inventory", "").hosts[
        name
    ]


@pytest.fixture
def record() -> Record:
    """A healthy node's record, to be broken."""
    return healthy_record()


@pytest.fixture
def host() -> Callable[..., Host]:
    """Makes hosts."""
    return make_host


@pytest.fixture
def variables() -> Callable[..., dict[str, Any]]:
    """Makes a host's variables."""
    return host_variables


@pytest.fixture
def facts() -> Callable[..., NodeFacts]:
    """Makes what a node check gets: a record, other nodes' records, changes of the inventory."""

    def make(raw: Record, fleet: dict[str, Record] | None = None, **changes: Any) -> NodeFacts:
        of = make_host(**changes)
        rows = {"gpu-1": raw, **(fleet or {"gpu-2": other_record()})}
        parsed = {name: parse(row) for name, row in rows.items()}
        return NodeFacts(of, parsed["gpu-1"], models.load().get(of.gpu_model), parsed)

    return make


@pytest.fixture
def programs() -> Path:
    """Folder of what runs inside pods."""
    return Path(__file__).parents[3] / "validation" / "workloads" / "programs"


class FakeCluster:
    """A cluster in memory that schedules pods to GPUs at once and answers for the programs.

    Attributes:
        gpus: UUIDs per node.
        answers: per program a function from environment and UUIDs to a result; replaced by tests.
        namespaces: those that are there.
        busiest: the most GPUs that were held at one moment.
    """

    def __init__(self, gpus: dict[str, list[str]]) -> None:
        self.gpus = gpus
        self.namespaces: dict[str, Any] = {}
        self.pods: dict[str, Any] = {}
        self.given: dict[str, list[str]] = {}
        self.logs: dict[str, str] = {}
        self.foreign: dict[str, set[str]] = {}
        self.answers: dict[str, Callable[[dict[str, str], list[str]], Any]] = dict.fromkeys(
            (
                "run_cuda.py",
                "run_pytorch.py",
                "run_tensorflow.py",
                "hold_gpu.py",
                "look_around.py",
                "reach_service.py",
            ),
            self.good,
        )
        self.lock = threading.RLock()

    @staticmethod
    def good(env: dict[str, str], uuids: list[str]) -> Any:
        """What a program says when all is well on simulated GPUs."""
        return {
            "ok": True, "simulated": True, "not_executed": ["the kernel"], "uuid": uuids[0] if uuids else None,
            "devices": [{"uuid": uuid} for uuid in uuids],
        }  # fmt: skip

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Namespaces and pods; a Job becomes its pod."""
        with self.lock:
            body = copy.deepcopy(body)
            name = body["metadata"]["name"]
            if body["kind"] == "Namespace":
                self.namespaces[name] = body
            elif body["kind"] == "Job":
                spec = body["spec"]["template"]
                self.pods[name + "-x"] = {
                    "metadata": {**spec["metadata"], "name": name + "-x"},
                    "spec": spec["spec"],
                    "status": {},
                }
            elif body["kind"] == "Pod":
                self.pods[name] = {**body, "status": {}}
            self.schedule()
            return body

    def schedule(self) -> None:
        """Give GPUs to whom they are free for, let programs end, release theirs."""
        for name, pod in self.pods.items():
            if pod["status"].get("phase") not in (None, "Pending"):
                continue
            spec = pod["spec"]
            terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
                "nodeSelectorTerms"
            ]
            node = terms[0]["matchFields"][0]["values"][0]
            container = spec["containers"][0]
            wanted = int(container["resources"].get("limits", {}).get("nvidia.com/gpu", 0))
            taken = {uuid for uuids in self.given.values() for uuid in uuids} | self.foreign.get(node, set())
            free = [uuid for uuid in self.gpus[node] if uuid not in taken]
            if wanted > len(free):
                message = "0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 node(s) didn't match Pod's node affinity."
                conditions = [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
                ]
                pod["status"] = {"phase": "Pending", "conditions": conditions}
                continue
            spec["nodeName"] = node
            uuids = free[:wanted]
            env = {row["name"]: row["value"] for row in container["env"]}
            self.run(name, pod, container["command"], env, uuids)

    def run(
        self, name: str, pod: dict[str, Any], command: list[str], env: dict[str, str], uuids: list[str]
    ) -> None:
        """Answer for a program."""
        if command[0] == "nvidia-smi":
            self.logs[name] = "\n".join(
                f"GPU {n}: NVIDIA H100 (UUID: {uuid})" for n, uuid in enumerate(uuids)
            )
            pod["status"] = {"phase": "Succeeded"}
            return
        program = Path(command[-1]).name
        answer = self.answers[program](env, uuids)
        self.logs[name] = json.dumps({"schema": "gpusmith.workload/1", "program": program, **answer})
        if program == "hold_gpu.py":
            self.given[name] = uuids
            pod["status"] = {"phase": "Running"}
        else:
            pod["status"] = {"phase": "Succeeded" if answer["ok"] else "Failed"}

    def get(self, path: str) -> Any:
        """Namespaces and their service account."""
        name = path.split("/")[4]
        return self.namespaces.get(name)

    def items(self, path: str, **query: str) -> Iterator[Any]:
        """Pods."""
        with self.lock:
            return iter(copy.deepcopy(list(self.pods.values())))

    def delete(self, path: str, grace_s: int | None = None) -> None:
        """A pod gives its GPU back."""
        with self.lock:
            kind, name = path.split("/")[-2:]
            if kind == "namespaces":
                self.namespaces.pop(name, None)
                self.pods.clear()
                self.given.clear()
            else:
                self.pods.pop(name, None)
                self.given.pop(name, None)
            self.schedule()

    def log(self, namespace: str, pod: str) -> str:
        """What its program printed."""
        return self.logs.get(pod, "")


@pytest.fixture
def fake_cluster() -> FakeCluster:
    """Two nodes of four GPUs."""
    other = [uuid.replace("GPU-0", "GPU-9") for uuid in UUIDS]
    return FakeCluster({"gpu-1": list(UUIDS), "gpu-2": other})
