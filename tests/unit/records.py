"""A healthy node as the probe records it."""

from __future__ import annotations

from typing import Any

from tests.unit.hosts import UUIDS, VERSION

Record = dict[str, Any]
ADDRESSES = ["0000:18:00.0", "0000:2a:00.0", "0000:3a:00.0", "0000:5d:00.0"]
INOTIFY = {"fs.inotify.max_user_instances": "8192", "fs.inotify.max_user_watches": "524288"}
# Minors in another order than NVML's, as on real boards.
MINORS = [1, 0, 3, 2]


def _gpu(index: int) -> Record:
    return {
        "index": index, "uuid": UUIDS[index], "name": "NVIDIA H100 80GB HBM3", "minor": MINORS[index], "pci": ADDRESSES[index],
        "memory_mib": 81559, "ecc_mode": "enabled", "ecc_uncorrected": 0, "remap_pending": False, "remap_failed": False,
        "retired_pages": None, "retirement_pending": None,
        "throttle_reasons": [], "mig_mode": "disabled", "mig_mode_pending": "disabled", "processes": [],
        "pcie_width": 16, "pcie_width_max": 16, "nvlinks": [True] * 18, "nvlink_mbps": [26562] * 18,
        "fabric_state": "completed", "fabric_status": "success", "error": None,
        "vbios": "96.00.SIM.00.01", "persistence_mode": "enabled", "power_limit_mw": 700000,
        "compute_mode": "default",
        "unsupported": ["retired_pages"], "unreadable": {},
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
        "host": {"hostname": "gpu-1", "boot_id": "b", "machine_id": "m", "kernel": "6.1.0", "time_unix": 2.0},
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
            "installed_version": VERSION, "loaded_version": VERSION, "flavour": "open", "nouveau_loaded": False,
            "firmware": ["gsp_ga10x.bin"], "loaded_unix": 1.0, "parameters": {"EnableStreamMemOPs": "1"},
        },
        "kernels": [
            {"release": "6.1.0", "image": "/boot/vmlinuz-6.1.0", "module": "m", "module_version": VERSION, "headers": True},
            # What the removal of a kernel leaves.
            {"release": "5.10.0", "image": None, "module": None, "module_version": None, "headers": False},
        ],
        "library": {
            "nvml_version": VERSION, "cuda_version": VERSION, "simulated": True,
            "nvidia_smi": "/usr/bin/nvidia-smi",
            "files": {
                name: {"path": f"/usr/lib/x86_64-linux-gnu/lib{name}.so.{VERSION}", "fault": None, "shadows": []}
                for name in ("nvidia-ml", "cuda")
            },
        },
        "nvml": {"init_code": 0, "error": None, "driver_version": VERSION, "gpus": [_gpu(n) for n in range(4)]},
        "dev": {
            "gpu_minors": [0, 1, 2, 3], "control": True, "uvm": True, "uvm_tools": True,
            "char_links": ["195:0", "195:1", "195:2", "195:3", "195:255", "511:0", "511:1"],
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
        "holders": [],
        "mps": {"controls": [], "left": False},
        "managed_files": {},
        "xids": [],
        "sxids": [],
        "xids_truncated": False,
        "log": {"source": "identifier", "begins_unix": 1.0},
        "containerd": {
            "version": "2.3.7", "root_schema": 4, "cri": {"up": True, "error": None},
            "digest": "d", "start_digest": "d", "config_changed_unix": 1.0, "noted_digest": "d", "noted_unix": 1.0,
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
        "clock": {"synchronised": "yes"},
        "cuda": {"versions": ["13.0"], "default": "13.0"},
        "system": {
            "swap_areas": [], "swap_fstab": [], "swap_target_masked": True,
            "modules": {"overlay": True, "br_netfilter": True, "nvidia_peermem": True},
            "sysctl": {
                "net.ipv4.ip_forward": "1", "net.bridge.bridge-nf-call-iptables": "1", "net.bridge.bridge-nf-call-ip6tables": "1",
                **INOTIFY,
            },
            "locked": [],
        },
        "boot": {
            "modules": {
                name: {"file": "/etc/modules-load.d/gpusmith-host-baseline.conf", "forbidden_by": None}
                for name in ("overlay", "br_netfilter")
            } | {"nvidia_peermem": {"file": "/etc/modules-load.d/gpusmith-nvidia-driver.conf", "forbidden_by": None}},
            "sysctl": {
                name: {"value": value, "files": ["/etc/sysctl.d/gpusmith-host-baseline.conf"]}
                for name, value in {
                    "net.ipv4.ip_forward": "1", "net.bridge.bridge-nf-call-iptables": "1",
                    "net.bridge.bridge-nf-call-ip6tables": "1", **INOTIFY,
                }.items()
            },
            "swap_units": [],
        },
        "allocations": {"devices": {"1b4e28ba-2fa1-11d2-883f-0016d3cca427": [UUIDS[0]]}, "claimants": []},
        "errors": [],
    }  # fmt: skip


def _of_part(name: str, minor: int) -> Record:
    path = f"/dev/nvidia{minor}"
    return {"name": name, "nodes": [{"path": path, "host_path": path, "numbers": None}]}


def divided_record() -> Record:
    """The same, with each GPU in two MIG instances; specifications as the toolkit and the device plugin write them."""
    record = healthy_record()
    rows = record["cdi"]["specs"][0]["devices"]
    rows[:] = [row for row in rows if row["name"] == "all"]
    of_pods = record["cdi"]["plugin_specs"][0]["devices"] = []
    for gpu in record["nvml"]["gpus"]:
        parts = [
            {
                "uuid": f"MIG-{gi}{gpu['uuid'][5:]}",
                "gpu_instance": gi,
                "profile": "3_SLICE",
                "start": start,
                "size": 4,
            }
            for gi, start in ((1, 0), (2, 4))
        ]
        gpu.update(mig_mode="enabled", mig_mode_pending="enabled", instances=parts)
        rows += [_of_part(f"{gpu['index']}:{number}", gpu["minor"]) for number in range(len(parts))]
        of_pods += [_of_part(str(part["uuid"]), gpu["minor"]) for part in parts]
    record["services"]["gpusmith-gpu-layout"] = {"active": "active", "enabled": "enabled"}
    record["gpu_layout"] = {"profile": "3g.40gb", "nvml": "3_SLICE", "starts": [0, 4]}
    return record


def other_record() -> Record:
    """A healthy node beside it: another machine with other GPUs."""
    record = healthy_record()
    record["host"].update(hostname="gpu-2", boot_id="other", machine_id="other")
    record["kubernetes"]["node_name"] = "gpu-2"
    for gpu in record["nvml"]["gpus"]:
        gpu["uuid"] = gpu["uuid"].replace("GPU-0", "GPU-9")
    return record
