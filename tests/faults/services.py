"""Services, and whether the machine has joined."""

from __future__ import annotations

from collections.abc import Callable

from gpusmith.problems import Cure
from tests.faults.fault import Fault, Record, not_joined, repairs, service


def unproved(role: str) -> Callable[[Record], object]:
    path = f"/var/lib/gpusmith/changes/{role}.json"
    return lambda record: record.setdefault("managed_files", {}).update({path: "digest"})


FAULTS = {
    "persistence-daemon-down": Fault(
        lambda record: record["services"]["nvidia-persistenced"].update(active="failed"),
        "nodes.services",
        ("nvidia-persistenced", "failed"),
        repairs=repairs(nvidia_driver={Cure.SERVICES}),
    ),
    "kubelet-disabled": Fault(
        lambda record: record["services"]["kubelet"].update(enabled="disabled"),
        "nodes.services",
        ("kubelet", "after a reboot"),
        repairs=repairs(kubernetes_node={Cure.SERVICES}),
    ),
    "module-not-loaded-at-boot": Fault(
        lambda record: record["services"]["gpusmith-nvidia-load"].update(enabled="disabled"),
        "nodes.services",
        ("gpusmith-nvidia-load", "disabled", "after a reboot"),
        repairs=repairs(nvidia_driver={Cure.SERVICES}),
    ),
    "device-unit-masked": Fault(
        lambda record: record["services"]["gpusmith-gpu-devices"].update(enabled="masked"),
        "nodes.services",
        ("gpusmith-gpu-devices", "masked", "after a reboot"),
        repairs=repairs(nvidia_container_toolkit={Cure.SERVICES}),
    ),
    "kubelet-conf-gone": Fault(
        lambda record: record["kubernetes"].update(joined=False, node_name=None),
        "nodes.identity",
        ("kubelet runs", "/etc/kubernetes/kubelet.conf", "gone"),
    ),
    "unit-files-changed": Fault(
        lambda record: record["services"]["kubelet"].update(changed=True),
        "nodes.services",
        ("'kubelet' runs by other unit files",),
    ),
    "boot-unit-deleted": Fault(
        lambda record: record["services"]["gpusmith-gpu-devices"].update(
            enabled="not-found", active="inactive"
        ),
        "nodes.services",
        ("'gpusmith-gpu-devices' is not-found", "after a reboot"),
        repairs=repairs(nvidia_container_toolkit={Cure.SERVICES}),
    ),
    "boot-parameters-masked": Fault(
        lambda record: record["services"]["systemd-sysctl"].update(enabled="masked"),
        "nodes.services",
        ("'systemd-sysctl' is masked", "no kernel parameters are set"),
        repairs=repairs(host_baseline={Cure.SERVICES}),
    ),
    "containerd-stopped": Fault(
        service("containerd", active="inactive"),
        "nodes.services",
        ("'containerd' is inactive", "no container"),
        repairs=repairs(containerd={Cure.SERVICES}),
    ),
    "containerd-disabled": Fault(
        service("containerd", enabled="disabled"),
        "nodes.services",
        ("'containerd' runs but is disabled",),
        repairs=repairs(containerd={Cure.SERVICES}),
    ),
    "kubelet-stopped": Fault(
        service("kubelet", active="inactive"),
        "nodes.services",
        ("'kubelet' is inactive",),
        repairs=repairs(kubernetes_node={Cure.SERVICES}),
    ),
    "not-joined": Fault(
        not_joined,
        "nodes.services",
        ("'kubelet' is activating",),
        repairs=repairs(kubernetes_node={Cure.JOIN}),
    ),
    "persistence-daemon-disabled": Fault(
        service("nvidia-persistenced", enabled="disabled"),
        "nodes.services",
        ("'nvidia-persistenced' runs but is disabled",),
        repairs=repairs(nvidia_driver={Cure.SERVICES}),
    ),
    "module-load-masked": Fault(
        service("systemd-modules-load", enabled="masked"),
        "nodes.services",
        ("no kernel modules are loaded",),
        repairs=repairs(host_baseline={Cure.SERVICES}),
    ),
    "containerd-changed-without-proof": Fault(
        unproved("containerd"),
        "nodes.services",
        ("'containerd' was begun by role 'containerd'", "neither proved nor taken back"),
        repairs=repairs(containerd={Cure.CONTAINERD}),
    ),
    "toolkit-changed-without-proof": Fault(
        unproved("nvidia_container_toolkit"),
        "nodes.services",
        ("begun by role 'nvidia_container_toolkit'",),
        repairs=repairs(nvidia_container_toolkit={Cure.CONTAINERD}),
    ),
    "kubelet-changed-without-proof": Fault(
        unproved("kubernetes_node"),
        "nodes.services",
        ("'kubelet' was begun by role 'kubernetes_node'",),
        repairs=repairs(kubernetes_node={Cure.KUBELET}),
    ),
}
