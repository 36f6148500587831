"""A node that site.yml has made, as the probe records it, and the settings with which its roles ask for their plans."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import yaml
from ansible_collections.gpusmith.gpu.plugins.filter.plan import drop_in, hosts_files, plan

from gpusmith.paths import repo_root
from gpusmith.wanted.read import to_plain
from tests.unit.expect.role_plans import (
    containerd_plan,
    driver_plan,
    host_baseline_plan,
    kubelet_plan,
    toolkit_plan,
    variables_and_own,
)
from tests.unit.hosts import VERSION, make_host
from tests.unit.records import INOTIFY, healthy_record

Record = dict[str, Any]
NODE = "gpu-1"
LAYOUTS = yaml.safe_load((repo_root() / "roles/nvidia_driver/vars/Debian.yml").read_text())[
    "__nvidia_driver_layouts"
]
DRIVER_FILES = {
    "/etc/modprobe.d/gpusmith-nvidia-driver.conf": "nouveau",
    "/etc/systemd/system/gpusmith-nvidia-load.service": "load",
}
MODULES_FILE = {"/etc/modules-load.d/gpusmith-host-baseline.conf": "modules"}
SYSCTL = {
    "net.ipv4.ip_forward": 1,
    "net.bridge.bridge-nf-call-iptables": 1,
    "net.bridge.bridge-nf-call-ip6tables": 1,
}
SYSCTL_FILE = {
    "/etc/sysctl.d/gpusmith-host-baseline.conf": "".join(
        f"{line}\n"
        for line in ("# head", *(f"{name} = {value}" for name, value in {**SYSCTL, **INOTIFY}.items()))
    )
}
HOST_FILES = {**MODULES_FILE, **SYSCTL_FILE}
TOOLKIT_FILES = {
    "/etc/nvidia-container-runtime/config.toml": "settings",
    "/etc/systemd/system/gpusmith-gpu-devices.service": "devices",
}
KUBELET_FILE = {"/etc/kubernetes/kubelet.conf.d/gpusmith-node.conf": "kubelet"}
ORDER_FILE = {"/etc/systemd/system/kubelet.service.d/gpusmith-order.conf": "order"}
RUNTIME_UNIT_FILE = {"/etc/systemd/system/containerd.service.d/gpusmith-environment.conf": "environment"}
CONTAINERD = {"runtime": {"enable_cdi": True}, "images": {}}
REGISTRIES = [{"host": "registry.example.com", "endpoint": "http://10.0.0.1:5000"}]
DROP_INS = {
    path: text
    for name in ("50-gpusmith", "60-gpusmith-nvidia")
    for path, text in drop_in(healthy_record(), name, **CONTAINERD).items()
}


def environment(unit: str, drop_in: Mapping[str, str], text: str = "") -> dict[str, str]:
    """Of a service, as its role asks for it."""
    path, content = next(iter(drop_in.items()))
    file = f"/etc/default/gpusmith-{unit}"
    of_unit = {"unit": unit, "drop_in": path, "drop_in_text": content}
    return {**of_unit, "file": file, "text": text, "variable": f"{unit}_proxy"}


SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "nvidia_driver": {
        "node": NODE,
        "version": VERSION,
        "module_flavour": "auto",
        "fabric_manager": "auto",
        "files": DRIVER_FILES,
    },
    "host_baseline": {
        "node": NODE,
        "swap": "off",
        "modules": ["overlay", "br_netfilter"],
        "sysctl": SYSCTL,
        "sysctl_minimum": INOTIFY,
        "files": MODULES_FILE,
        "sysctl_file": {"path": next(iter(SYSCTL_FILE)), "head": "# head"},
    },
    "containerd": {
        "node": NODE,
        "packages": {"containerd.io": "2.3.7"},
        "name": "50-gpusmith",
        "registries": REGISTRIES,
        "environment": environment("containerd", RUNTIME_UNIT_FILE),
        **CONTAINERD,
    },
    "nvidia_container_toolkit": {
        "node": NODE,
        "packages": {"nvidia-container-toolkit": "1.20.1", "nvidia-container-toolkit-base": "1.20.1"},
        "default_runtime": False,
        "cdi_spec": "/var/run/cdi/nvidia.yaml",
        "files": TOOLKIT_FILES,
        "name": "60-gpusmith-nvidia",
        "runtime": CONTAINERD["runtime"],
    },
    "kubernetes_node": {
        "node": NODE,
        "packages": dict.fromkeys(("kubelet", "kubeadm", "kubectl"), "1.36.3"),
        "settings": KUBELET_FILE,
        "environment": environment("kubelet", ORDER_FILE),
    },
}
"""By role."""

PLANS: Mapping[str, Callable[[Record], dict[str, Any]]] = {
    "host_baseline": lambda record: host_baseline_plan(record, SETTINGS["host_baseline"]),
    "nvidia_driver": lambda record: driver_plan(record, SETTINGS["nvidia_driver"], LAYOUTS),
    "containerd": lambda record: containerd_plan(record, SETTINGS["containerd"]),
    "nvidia_container_toolkit": lambda record: toolkit_plan(record, SETTINGS["nvidia_container_toolkit"]),
    "kubernetes_node": lambda record: kubelet_plan(record, SETTINGS["kubernetes_node"]),
}
"""What a role has to do on a node, by role, in the order of site.yml."""


VARIABLES = {
    name: value
    for role, settings in SETTINGS.items()
    for name, value in variables_and_own(role, settings)[0].items()
}
"""Of all these roles, as an inventory has them."""


def same_plans(**changes: Any) -> dict[str, Callable[[Record], dict[str, Any]]]:
    """Plans of all roles from one record of what is wanted, of which the suite can be asked the same."""
    wanted = to_plain(make_host(**{**VARIABLES, **changes}))

    def of(role: str) -> Callable[[Record], dict[str, Any]]:
        own = variables_and_own(role, SETTINGS[role])[1]
        own |= {"layouts": LAYOUTS} if role == "nvidia_driver" else {}
        return lambda record: plan(record, role, wanted, own)

    return {role: of(role) for role in SETTINGS}


def converged_record() -> Record:
    """A healthy node with all that the roles bring besides what the suite asks for."""
    record = healthy_record()
    record["host"].update(os_id="debian", os_version="12")
    for name in ("nvidia-modprobe", "nvidia-kernel-open-dkms", "libnvidia-nscq"):
        record["packages"][name] = {"version": f"{VERSION}-1", "held": True}
    record["packages"]["nvidia-container-toolkit-base"] = {"version": "1.20.1-1", "held": True}
    for name in ("kubeadm", "kubectl"):
        record["packages"][name] = {"version": "1.36.3-1.1", "held": True}
    contents = {
        **DRIVER_FILES,
        **HOST_FILES,
        **TOOLKIT_FILES,
        **KUBELET_FILE,
        **ORDER_FILE,
        **RUNTIME_UNIT_FILE,
    }
    record["managed_files"] = {
        path: hashlib.sha256(text.encode()).hexdigest()
        for path, text in {**contents, **DROP_INS, **hosts_files(REGISTRIES)}.items()
    }
    return record
