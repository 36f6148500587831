"""Hosts as an inventory describes them."""

from __future__ import annotations

from typing import Any

from gpusmith.inventory.host import Host
from gpusmith.inventory.read import build

VERSION = "580.178.04"
UUIDS = [f"GPU-0000000{n}-1111-2222-3333-44444444444{n}" for n in range(4)]


def host_variables(**changes: Any) -> dict[str, Any]:
    """What ansible-inventory says of a lab node; None takes a variable out."""
    values: dict[str, Any] = {
        "ansible_host": "192.0.2.1",
        "gpusmith_simulated": True,
        "gpusmith_gpu_model": "h100-sxm",
        "gpusmith_gpu_count": 4,
        "gpusmith_kubeconfig": "/nowhere/kubeconfig",
        "nvidia_driver_version": VERSION,
        "nvidia_driver_extra_modules": ["nvidia_peermem"],
        "nvidia_driver_module_parameters": {"NVreg_EnableStreamMemOPs": 1},
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
