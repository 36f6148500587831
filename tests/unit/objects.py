"""A healthy GPU node and its operands as the Kubernetes API lists them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpusmith.names import GPU_RESOURCE
from tests.unit.hosts import VERSION


def gpus(count: int) -> dict[str, int]:
    """So many whole GPUs, as a Node offers them or a pod holds them."""
    return {GPU_RESOURCE: count}


def node(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "metadata": {
            "name": "gpu-1",
            "labels": {
                "gpu-type": "h100-sxm", "gpusmith.io/operands": "enabled", "gpusmith.io/simulated": "true",
                "gpusmith.io/gpus": "4",
                "nvidia.com/gpu.count": "4", "nvidia.com/cuda.driver-version.full": VERSION,
            },
        },
        "spec": {"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]},
        "status": {
            "conditions": [
                {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"},
                {"type": "DiskPressure", "status": "False"},
            ],
            "capacity": {"nvidia.com/gpu": "4"}, "allocatable": {"nvidia.com/gpu": "4"},
            "nodeInfo": {"machineID": "m", "bootID": "b", "systemUUID": "s"},
        },
    }  # fmt: skip
    for path, value in changes.items():
        part = found
        *folders, last = path.split("__")
        for folder in folders:
            part = part[folder]
        part[last] = value
    return found


def operand(name: str, ready: bool = True) -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"{name}-x", "namespace": "gpusmith-system", "labels": {"app.kubernetes.io/name": name},
        },
        "spec": {"containers": [{"image": "registry.example/k8s-device-plugin:v1"}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "containerStatuses": [
                {
                    "name": "p",
                    "ready": ready,
                    "state": {} if ready else {"waiting": {"reason": "CrashLoopBackOff"}},
                }
            ],
        },
    }  # fmt: skip


ON_NODE = ("nvidia-device-plugin", "gpu-feature-discovery", "nfd-worker")
MASTER = operand("nfd-master")


def operands(**ready: bool) -> list[dict[str, Any]]:
    """All that run on a node; by name, those that are not ready."""
    return [operand(name, ready.get(name.replace("-", "_"), True)) for name in ON_NODE]


def set_by_others(name: str, namespace: str | None, *fields: str) -> dict[str, Any]:
    """An object of a list, which has no kind, in which somebody else set these fields of its specification."""
    rows = [
        {"manager": "gpusmith", "operation": "Apply", "fieldsV1": {"f:spec": {"f:selector": {}}}},
        {
            "manager": "kubectl-set",
            "operation": "Update",
            "fieldsV1": {"f:spec": {f"f:{field}": {} for field in fields}},
        },
    ]
    where = {"namespace": namespace} if namespace else {}
    return {"metadata": {"name": name, **where, "managedFields": rows}, "handler": "nvidia"}


def holder(name: str, gpus: str, phase: str) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": gpus}
    return {
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"containers": [{"resources": {"limits": limits}}]},
        "status": {"phase": phase},
    }


def privileged(name: str, uid: str, place: str = "gpu-1", **metadata: Any) -> dict[str, Any]:
    """A pod that reaches all devices of its node."""
    return {
        "metadata": {"name": name, "namespace": "team", "uid": uid, **metadata},
        "spec": {"nodeName": place, "containers": [{"securityContext": {"privileged": True}}]},
        "status": {"phase": "Running"},
    }


# --- Dynamic Resource Allocation -----------------------------------------------------------------------------------


def gpu_slice(place: str, uuids: Sequence[str], driver: str = "gpu.nvidia.com") -> dict[str, Any]:
    """GPUs of a node as NVIDIA's driver offers them."""
    devices = [
        {"name": f"gpu-{n}", "attributes": {"type": {"string": "gpu"}, "uuid": {"string": uuid}}}
        for n, uuid in enumerate(uuids)
    ]
    return resource_slice(place, devices, driver)


def resource_slice(
    place: str, devices: list[dict[str, Any]], driver: str = "gpu.nvidia.com", generation: int = 1
) -> dict[str, Any]:
    pool = {"name": place, "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": driver, "pool": pool, "nodeName": place, "devices": devices}
    return {"metadata": {"name": f"{place}-{driver}-{generation}"}, "spec": spec}


def resource_claim(
    name: str,
    *devices: str,
    place: str = "gpu-1",
    driver: str = "gpu.nvidia.com",
    uid: str = "",
    **result: Any,
) -> dict[str, Any]:
    """A claim of namespace team; without devices it is not allocated."""
    rows = [{"request": "r", "driver": driver, "pool": place, "device": each, **result} for each in devices]
    reserved = {"reservedFor": [{"resource": "pods", "name": "p", "uid": uid}]} if uid else {}
    status = {"allocation": {"devices": {"results": rows}}, **reserved} if devices else {}
    return {"metadata": {"namespace": "team", "name": name}, "spec": {}, "status": status}
