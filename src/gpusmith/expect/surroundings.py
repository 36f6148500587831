"""What else rules a machine: what a person should know before it becomes a node.

Of firewalld, open ports are not enough: what pods send is forwarded, and its nftables backend rejects that after the pod
network's own rules have accepted it, unless the target of its zone is ACCEPT.
Source: measured with firewalld 1.3.3 and 2.3.1, tests/long/test_firewalld.py, 2026-11-25.
"""

from __future__ import annotations

from gpusmith.probe.record import Record

NETWORK_MANAGER = "NetworkManager"
FIREWALLD = "firewalld"
PORTS = ("10250/tcp", "10256/tcp", "30000-32767/tcp", "30000-32767/udp")
"""Of the kubelet, of kube-proxy, and of Services of type NodePort (kubernetes.io, "Ports and Protocols", read 2026-11-25)."""
NEEDED = f"{', '.join(PORTS)} and those of the pod network"
FOR_NOW = "and the same without '--permanent'"


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
    if _runs(record, FIREWALLD):
        found += _firewalld()
    if seen.ufw:
        found.append(f"ufw is on: let in {NEEDED} ('ufw allow PORT'), gpusmith does not")
    if _runs(record, NETWORK_MANAGER) and not seen.interfaces_kept:
        found.append(
            "NetworkManager runs: keep it from the pod network's interfaces by 'unmanaged-devices' in"
            " '/etc/NetworkManager/conf.d'"
        )
    return found


def _firewalld() -> list[str]:
    """What it needs to be told, unless a person has done so."""
    ports = " ".join(f"--add-port={port}" for port in PORTS)
    let_in = (
        f"firewalld runs: see that the zone of the node's network lets in {NEEDED}:"
        f" 'firewall-cmd --permanent --zone=ZONE {ports}' {FOR_NOW}"
    )
    pods = (
        "firewalld rejects what pods send to each other, even if all ports are open, unless a zone accepts the network of the"
        f" pods: run 'firewall-cmd --permanent --zone=trusted --add-source=NETWORK' {FOR_NOW}"
    )
    return [let_in, pods]
