"""firewalld: what it keeps from Kubernetes, and the commands that change it. No role opens anything.

Open ports let in what is for the machine itself. What pods send is forwarded, and firewalld's nftables backend rejects that
after the pod network's own rules have accepted it, unless the target of its zone is ACCEPT.
Source: measured with firewalld 1.3.3 and 2.3.1, tests/long/test_firewalld.py, 2026-11-25.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from gpusmith.probe.firewall import Firewall, Zone
from gpusmith.probe.record import Record

FIREWALLD = "firewalld"
EVERYTHING = "ACCEPT"
PORTS = ("10250/tcp", "10256/tcp", "30000-32767/tcp", "30000-32767/udp")
"""Of the kubelet, of kube-proxy, and of Services of type NodePort (kubernetes.io, "Ports and Protocols", read 2026-11-25)."""
POD_NETWORK = "those of the pod network"
FOR_NOW = "and the same without '--permanent'"


def notes(record: Record) -> list[str]:
    """What a person should know of a machine that is to become a node; nothing where firewalld does not run."""
    there, seen = record.services.get(FIREWALLD), record.firewall
    if there is None or there.active != "active":
        return []
    if not (seen.now and seen.boot):
        # As while it restarts: nobody knows then which zone counts.
        return [
            f"firewalld runs and does not tell its zones: see that it lets in {', '.join(PORTS)} and {POD_NETWORK}"
        ]
    found = [
        f"firewalld keeps {', '.join(ports)} closed in zone '{zone}': open them and {POD_NETWORK} with 'firewall-cmd --permanent"
        f" --zone={zone} {' '.join(f'--add-port={port}' for port in ports)}' {FOR_NOW}"
        for zone, ports in closed(seen).items()
    ]
    if not all(_accepts_everything(seen, zones) for zones in (seen.now, seen.boot)):
        found.append(
            "firewalld rejects what pods send to each other, even if all ports are open, unless a zone accepts the network of"
            f" the pods: run 'firewall-cmd --permanent --zone=trusted --add-source=NETWORK' {FOR_NOW}"
        )
    return found


def closed(seen: Firewall) -> dict[str, list[str]]:
    """Ports that are closed now, or after the next boot, by the zone through which the machine is reached then."""
    found: dict[str, set[str]] = {}
    for zones in (seen.now, seen.boot):
        name = _zone_of(seen, zones)
        zone = zones.get(name, Zone())
        if zone.target != EVERYTHING:
            open_ = _numbers(zone.ports)
            found.setdefault(name, set()).update(port for port in PORTS if not _numbers([port]) <= open_)
    return {name: [port for port in PORTS if port in ports] for name, ports in found.items() if ports}


def _zone_of(seen: Firewall, zones: Mapping[str, Zone]) -> str:
    """That of the interface by which the machine is reached."""
    return next(
        (name for name, zone in zones.items() if seen.interface in zone.interfaces), seen.default_zone
    )


def _numbers(ports: Iterable[str]) -> set[tuple[str, int]]:
    """Each port of ranges such as '30000-32767/tcp'."""
    ranges = filter(None, (re.fullmatch(r"(\d+)(?:-(\d+))?/(\w+)", port) for port in ports))
    return {
        (each.group(3), number)
        for each in ranges
        for number in range(int(each.group(1)), int(each.group(2) or each.group(1)) + 1)
    }


def _accepts_everything(seen: Firewall, zones: Mapping[str, Zone]) -> bool:
    """Packets of pods come in by the pod network's interfaces, which are in the default zone, and by the machine's own."""
    names = {seen.default_zone, _zone_of(seen, zones)}
    return all(zones.get(name, Zone()).target == EVERYTHING for name in names)
