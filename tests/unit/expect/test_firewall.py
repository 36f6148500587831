"""What firewalld keeps from Kubernetes is told, with the commands that change it, before a machine is a node."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from gpusmith.expect import firewall
from gpusmith.node.records import parse
from gpusmith.probe.firewall import Firewall, Zone
from tests.unit.expect.converged import converged_record

RUNS = {"active": "active", "enabled": "enabled"}
OPEN = Zone(interfaces=("eth0",), ports=firewall.PORTS)
CLOSED = Zone(interfaces=("eth0",))
PODS = "firewalld rejects what pods send to each other"


def machine(runs: bool = True, **seen: Any) -> list[str]:
    record = converged_record()
    record["firewall"] = asdict(Firewall(**{"interface": "eth0", **seen}))
    if runs:
        record["services"]["firewalld"] = RUNS
    return firewall.notes(parse(record))


def closed(now: dict[str, Zone], boot: dict[str, Zone], **seen: str) -> dict[str, list[str]]:
    return firewall.closed(Firewall(**{"interface": "eth0", **seen}, now=now, boot=boot))


def test_closed_ports_and_pods_are_told_with_the_commands() -> None:
    ports, pods = machine(now={"public": CLOSED}, boot={"public": CLOSED})
    assert "keeps 10250/tcp, 10256/tcp, 30000-32767/tcp, 30000-32767/udp closed in zone 'public'" in ports
    add = " ".join(f"--add-port={port}" for port in firewall.PORTS)
    assert f"'firewall-cmd --permanent --zone=public {add}' and the same without '--permanent'" in ports
    assert pods.startswith(PODS)
    assert "'firewall-cmd --permanent --zone=trusted --add-source=NETWORK'" in pods


def test_pods_are_told_of_although_all_ports_are_open() -> None:
    (pods,) = machine(now={"public": OPEN}, boot={"public": OPEN})
    assert pods.startswith(PODS)


def test_where_firewalld_does_not_run_or_accepts_everything_nothing_is_told() -> None:
    assert machine(False, now={"public": CLOSED}, boot={"public": CLOSED}) == []
    everything = {"trusted": Zone("ACCEPT", ("eth0",))}
    assert machine(now=everything, boot=everything, default_zone="trusted") == []
    # Interfaces of the pod network come into the default zone.
    (pods,) = machine(now=everything, boot=everything)
    assert pods.startswith(PODS)


@pytest.mark.parametrize("said", [{}, {"now": {"public": OPEN}}, {"boot": {"public": OPEN}}])
def test_a_firewalld_that_does_not_tell_its_zones_is_named(said: dict[str, Any]) -> None:
    (note,) = machine(**said)
    assert "does not tell its zones: see that it lets in 10250/tcp" in note


def test_a_port_has_to_be_open_now_and_at_the_next_boot() -> None:
    yes, no, ports = {"public": OPEN}, {"public": CLOSED}, list(firewall.PORTS)
    assert closed(yes, yes) == {}
    assert closed(yes, no) == closed(no, yes) == closed(no, no) == {"public": ports}


def test_the_zone_is_that_of_the_interface_now_and_at_the_next_boot() -> None:
    ports = list(firewall.PORTS)
    other = {"public": Zone(ports=firewall.PORTS), "work": CLOSED}
    assert closed(other, other) == {"work": ports}
    # Only a running firewalld has the interface there: the next boot puts it into the default zone.
    later = {"public": Zone(), "work": Zone()}
    assert closed(other, later) == {"work": ports, "public": ports}
    assert closed(later, later, default_zone="work") == {"work": ports}


@pytest.mark.parametrize(
    ("there", "lacking"),
    [
        (("10249-10256/tcp", "30000-31000/tcp", "31001-40000/tcp", "1-65535/udp"), []),
        (("10249-10256/tcp", "30000-31000/tcp", "31002-40000/tcp", "1-65535/udp"), ["30000-32767/tcp"]),
        (("1-65535/udp", "no port"), ["10250/tcp", "10256/tcp", "30000-32767/tcp"]),
    ],
)
def test_ranges_of_others_count_together(there: tuple[str, ...], lacking: list[str]) -> None:
    seen = {"public": Zone(interfaces=("eth0",), ports=there)}
    assert closed(seen, seen).get("public", []) == lacking
