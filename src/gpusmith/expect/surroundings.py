"""What else rules a machine: what a person should know before it becomes a node."""

from __future__ import annotations

from gpusmith.expect import firewall, pod_traffic
from gpusmith.probe.record import Record

NETWORK_MANAGER = "NetworkManager"
POD_NETWORK = "and those of the pod network"


def _runs(record: Record, unit: str) -> bool:
    there = record.services.get(unit)
    return there is not None and there.active == "active"


def notes(record: Record, want: firewall.Wanted, opened: bool) -> list[str]:
    """What a person should know of a machine that is to become a node; of one that is, nothing any more.

    Args:
        record: of the node.
        want: ports that Kubernetes needs, and networks of pods.
        opened: whether the role lets them in.
    """
    if record.kubernetes.joined:
        return []
    seen, found = record.surroundings, []
    if seen.selinux in ("enforcing", "permissive"):
        found.append(
            f"SELinux is {seen.selinux}: gpusmith changes nothing about it, and was never run where it enforces;"
            " denials are in 'ausearch -m AVC'"
        )
    if seen.apparmor:
        found.append(
            "AppArmor is on: containerd gives containers its own profile, gpusmith changes nothing about it"
        )
    closed = firewall.closed(record, want)
    if closed and not opened:
        needed = f"{firewall.in_words(closed)} {POD_NETWORK}"
        found.append(f"firewalld runs: open {needed}, or set 'host_baseline_firewall: open'")
    if firewall.says_nothing(record) and not opened:
        found.append(
            f"firewalld runs and does not tell its zones: see that it lets in {', '.join(want.ports)} {POD_NETWORK}"
        )
    found += pod_traffic.notes(record, want, opened)
    if seen.ufw:
        needed = f"{', '.join(want.ports)} {POD_NETWORK}"
        found.append(f"ufw is on: let in {needed} ('ufw allow PORT'), gpusmith does not")
    if _runs(record, NETWORK_MANAGER) and not seen.interfaces_kept:
        found.append(
            "NetworkManager runs: keep it from the pod network's interfaces by 'unmanaged-devices' in"
            " '/etc/NetworkManager/conf.d'"
        )
    return found
