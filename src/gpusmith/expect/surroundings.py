"""What else rules a machine: what a person should know before it becomes a node, and ports that a firewall has to let in."""

from __future__ import annotations

from collections.abc import Sequence

from gpusmith.probe.record import Record
from gpusmith.problems import Cure, Problem

FIREWALLD, NETWORK_MANAGER = "firewalld", "NetworkManager"
POD_NETWORK = "and those of the pod network"


def _runs(record: Record, unit: str) -> bool:
    there = record.services.get(unit)
    return there is not None and there.active == "active"


def closed_ports(record: Record, ports: Sequence[str]) -> list[str]:
    """Ports that firewalld does not let in for good; none where it does not run."""
    if not _runs(record, FIREWALLD):
        return []
    return [port for port in ports if port not in record.surroundings.firewalld_ports]


def problems(record: Record, node: str, ports: Sequence[str]) -> list[Problem]:
    """A firewall that keeps ports closed which the inventory wants to be open.

    Args:
        record: of the node.
        node: how messages name it.
        ports: that are to be open; none where firewalls are not ours to change.
    """
    closed = closed_ports(record, ports)
    if not closed:
        return []
    return [
        Problem(
            f"Node '{node}': firewalld keeps {', '.join(closed)} closed.",
            "Run site.yml for the node.",
            {"firewalld_closed": closed},
            Cure.HOST,
        )
    ]


def notes(record: Record, ports: Sequence[str], opened: bool) -> list[str]:
    """What a person should know of a machine that is to become a node; of one that is, nothing any more.

    Args:
        record: of the node.
        ports: that Kubernetes needs.
        opened: whether the role opens them in firewalld.
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
    needed = f"{', '.join(ports)} {POD_NETWORK}"
    if _runs(record, FIREWALLD) and not opened and closed_ports(record, ports):
        found.append(f"firewalld runs: open {needed}, or set 'host_baseline_firewall: open'")
    if seen.ufw:
        found.append(f"ufw is on: let in {needed} ('ufw allow PORT'), gpusmith does not")
    if _runs(record, NETWORK_MANAGER) and not seen.interfaces_kept:
        found.append(
            "NetworkManager runs: keep it from the pod network's interfaces by 'unmanaged-devices' in"
            " '/etc/NetworkManager/conf.d'"
        )
    return found
