"""What else rules a machine: what a person should know before it becomes a node."""

from __future__ import annotations

from gpusmith.expect import firewall
from gpusmith.probe.record import Record

NETWORK_MANAGER = "NetworkManager"


def _runs(record: Record, unit: str) -> bool:
    there = record.services.get(unit)
    return there is not None and there.active == "active"


def notes(record: Record) -> list[str]:
    """What a person should know of a machine that is to become a node; of one that is, nothing any more."""
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
    found += firewall.notes(record)
    if seen.ufw:
        needed = f"{', '.join(firewall.PORTS)} and {firewall.POD_NETWORK}"
        found.append(f"ufw is on: let in {needed} ('ufw allow PORT'), gpusmith does not")
    if _runs(record, NETWORK_MANAGER) and not seen.interfaces_kept:
        found.append(
            "NetworkManager runs: keep it from the pod network's interfaces by 'unmanaged-devices' in"
            " '/etc/NetworkManager/conf.d'"
        )
    return found
