"""Services, and whether the machine has joined."""

from __future__ import annotations

from collections.abc import Callable

from gpusmith.problems import Cure
from tests.faults.fault import Fault, Record, not_joined, repairs, sets


def unproved(role: str) -> Callable[[Record], object]:
    path = f"/var/lib/gpusmith/changes/{role}.json"
    return lambda record: record.setdefault("managed_files", {}).update({path: "digest"})


def units_deleted(record: Record) -> None:
    """Both, and not the other files of their roles."""
    for name in ("gpusmith-nvidia-load", "gpusmith-gpu-devices"):
        record["services"][name].update(active="inactive", enabled="not-found")
    record.setdefault("managed_files", {}).setdefault("/etc/modprobe.d/gpusmith-nvidia-driver.conf", "digest")


def of_service(name: str, role: str, *says: str, **state: str) -> Fault:
    """A service in another state, which a role puts right."""
    cures = repairs(**{role: {Cure.SERVICES}})
    return Fault(sets("services", name, **state), "nodes.services", says, repairs=cures)


FAULTS = {
    "persistence-daemon-down": of_service(
        "nvidia-persistenced", "nvidia_driver", "nvidia-persistenced", "failed", active="failed"
    ),
    "kubelet-disabled": of_service(
        "kubelet", "kubernetes_node", "kubelet", "after a reboot", enabled="disabled"
    ),
    "module-not-loaded-at-boot": of_service(
        "gpusmith-nvidia-load",
        "nvidia_driver",
        "gpusmith-nvidia-load",
        "disabled",
        "after a reboot",
        enabled="disabled",
    ),
    "device-unit-masked": of_service(
        "gpusmith-gpu-devices",
        "nvidia_container_toolkit",
        "gpusmith-gpu-devices",
        "masked",
        "after a reboot",
        enabled="masked",
    ),
    "kubelet-conf-gone": Fault(
        sets("kubernetes", joined=False, node_name=None),
        "nodes.identity",
        ("kubelet runs", "/etc/kubernetes/kubelet.conf", "gone"),
    ),
    "unit-files-changed": Fault(
        sets("services", "kubelet", changed=True),
        "nodes.services",
        ("unit files of service 'kubelet' have changed",),
    ),
    "boot-unit-deleted": of_service(
        "gpusmith-gpu-devices",
        "nvidia_container_toolkit",
        "'gpusmith-gpu-devices' is not-found",
        "after a reboot",
        enabled="not-found",
        active="inactive",
    ),
    "boot-units-all-deleted": Fault(
        units_deleted,
        "nodes.services",
        ("'gpusmith-nvidia-load' is not-found", "'gpusmith-gpu-devices' is not-found"),
        repairs=repairs(nvidia_driver={Cure.SERVICES}, nvidia_container_toolkit={Cure.SERVICES}),
    ),
    "boot-parameters-masked": of_service(
        "systemd-sysctl",
        "host_baseline",
        "'systemd-sysctl' is masked",
        "no kernel parameters are set",
        enabled="masked",
    ),
    "containerd-stopped": of_service(
        "containerd", "containerd", "'containerd' is inactive", "no container", active="inactive"
    ),
    "containerd-disabled": of_service(
        "containerd", "containerd", "'containerd' runs but is disabled", enabled="disabled"
    ),
    "kubelet-stopped": of_service("kubelet", "kubernetes_node", "'kubelet' is inactive", active="inactive"),
    "not-joined": Fault(
        not_joined,
        "nodes.services",
        ("'kubelet' is activating",),
        repairs=repairs(kubernetes_node={Cure.JOIN}),
    ),
    "persistence-daemon-disabled": of_service(
        "nvidia-persistenced",
        "nvidia_driver",
        "'nvidia-persistenced' runs but is disabled",
        enabled="disabled",
    ),
    "module-load-masked": of_service(
        "systemd-modules-load", "host_baseline", "no kernel modules are loaded", enabled="masked"
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
