"""A cluster that NVIDIA's GPU Operator has set up: labels, taints and pods as its releases of 2025 make them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.fleet import api
from tests.fleet.site import DRIVER, GPUS

Object = dict[str, Any]
NAMESPACE = "gpu-operator"
NONE: Mapping[str, str | None] = {}
MARKS = {"app.kubernetes.io/managed-by": "gpu-operator", "helm.sh/chart": "gpu-operator-v25.3.0"}
LABELS = {
    "feature.node.kubernetes.io/pci-10de.present": "true",
    "nvidia.com/gpu.present": "true",
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/gpu.count": str(GPUS),
    "nvidia.com/gpu.replicas": "1",
    "nvidia.com/gpu.deploy.device-plugin": "true",
    "nvidia.com/cuda.driver-version.full": DRIVER,
}


def node(offers: int | None = GPUS, labels: Mapping[str, str | None] = NONE) -> Object:
    """A Node, with other labels than a healthy one; None takes one away."""
    made = api.node()
    written = {**LABELS, **{key: value for key, value in labels.items() if value is not None}}
    gone = {key for key, value in labels.items() if value is None}
    made["metadata"] |= {
        "annotations": {},
        "labels": {key: value for key, value in written.items() if key not in gone},
    }
    made["spec"] = {}
    for part in ("capacity", "allocatable"):
        made["status"][part] = {"cpu": "192", **({} if offers is None else {"nvidia.com/gpu": str(offers)})}
    return made


def pod(name: str, image: str, command: str = "") -> Object:
    """Of a DaemonSet of the operator."""
    made = api.pod(NAMESPACE, name, image, command)
    made["metadata"]["labels"] = {"app": name, **MARKS}
    return made


PLUGIN = "nvidia-device-plugin-daemonset"
PODS = [
    pod(PLUGIN, "nvcr.io/nvidia/k8s-device-plugin:v0.17.2", "nvidia-device-plugin"),
    pod("gpu-feature-discovery", "nvcr.io/nvidia/k8s-device-plugin:v0.17.2", "gpu-feature-discovery"),
    pod("nvidia-container-toolkit-daemonset", "nvcr.io/nvidia/k8s/container-toolkit:v1.17.8"),
    pod("nvidia-operator-validator", "nvcr.io/nvidia/cloud-native/gpu-operator-validator:v25.3.0"),
]
