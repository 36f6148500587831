"""Ports are opened only where that is asked for, in the zone that matters, and only those that lack."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from gpusmith.expect import firewall, forecast, plans
from gpusmith.node.records import parse
from gpusmith.probe.firewall import Firewall, Zone
from tests.unit.expect.converged import SETTINGS, converged_record

RUNS = {"active": "active", "enabled": "enabled"}
PORTS = ["10250/tcp", "8472/udp"]
OPEN = Zone(interfaces=("eth0",), ports=tuple(PORTS))
CLOSED = Zone(interfaces=("eth0",))


def machine(runs: bool = True, **seen: Any) -> dict[str, Any]:
    record = converged_record()
    record["firewall"] = asdict(Firewall(**{"interface": "eth0", **seen}))
    if runs:
        record["services"]["firewalld"] = RUNS
    return record


def plan(record: dict[str, Any], ports: list[str] | None = None, zone: str = "") -> dict[str, Any]:
    asked = {"ports": PORTS if ports is None else ports, "zone": zone}
    return plans.host_baseline(record, {**SETTINGS["host_baseline"], **asked})


def opened(record: dict[str, Any], *ports: str, zone: str = "") -> list[str]:
    rows = plan(record, list(ports) or PORTS, zone)["ports"]
    return [f"{row['zone']} {row['port']}{'' if row['permanent'] else ' now'}" for row in rows]


def test_closed_ports_are_opened_where_firewalld_runs_and_where_that_is_asked_for() -> None:
    seen = {"public": Zone(interfaces=("eth0",), ports=("10250/tcp",))}
    assert plan(machine(False, now=seen, boot=seen))["ports"] == []
    record = machine(now=seen, boot=seen, opened=("public 1/tcp",))
    found = plan(record)
    assert opened(record) == ["public 8472/udp"]
    assert found["problems"] == ["firewalld keeps closed: 8472/udp (zone 'public')"]
    assert found["firewall_noted"] == "public 1/tcp\npublic 8472/udp\n"
    changes = forecast.of_role("host_baseline", found)["changes"]
    assert changes["more"] == ["firewalld lets in 8472/udp (zone 'public')"]
    assert plan(record, [])["problems"] == []


def test_a_port_has_to_be_open_now_and_for_good() -> None:
    yes, no = {"public": OPEN}, {"public": CLOSED}
    assert opened(machine(now=yes, boot=yes)) == []
    assert opened(machine(now=yes, boot=no)) == ["public 10250/tcp", "public 8472/udp"]
    # What is the site's own for good is opened now, and no removal closes it.
    only_later = machine(now=no, boot=yes)
    assert opened(only_later) == ["public 10250/tcp now", "public 8472/udp now"]
    assert plan(only_later)["firewall_noted"] == ""


def test_the_zone_is_that_of_the_interface_now_and_at_the_next_boot() -> None:
    other = {"public": Zone(ports=tuple(PORTS)), "work": CLOSED}
    assert opened(machine(now=other, boot=other), "1/tcp") == ["work 1/tcp"]
    # Only a running firewalld has the interface there: the next boot puts it into the default zone.
    later = {"public": Zone(), "work": Zone()}
    assert opened(machine(now=other, boot=later), "1/tcp") == ["work 1/tcp", "public 1/tcp"]
    assert opened(machine(now=later, boot=later, default_zone="work"), "1/tcp") == ["work 1/tcp"]
    assert opened(machine(now=other, boot=other), "1/tcp", zone="home") == ["home 1/tcp"]


@pytest.mark.parametrize(
    ("there", "wanted", "lacking"),
    [
        ((), "30000-32767/tcp", ["30000-32767/tcp"]),
        (("30000-31000/tcp", "32000-40000/tcp"), "30000-32767/tcp", ["31001-31999/tcp"]),
        (("30000-31000/tcp", "31001-40000/tcp"), "30000-32767/tcp", []),
        (("1-65535/udp",), "10250/tcp", ["10250/tcp"]),
        (("10249-10251/tcp",), "10250/tcp", []),
        ((), "10250", ["10250"]),
        (("10250/tcp", "20000/tcp"), "10249-10251/tcp", ["10249/tcp", "10251/tcp"]),
    ],
)
def test_of_a_range_only_what_lacks_is_opened(
    there: tuple[str, ...], wanted: str, lacking: list[str]
) -> None:
    """firewalld merges ranges that overlap, and a removal would close those of the site as well."""
    seen = {"public": Zone(interfaces=("eth0",), ports=there)}
    assert opened(machine(now=seen, boot=seen), wanted) == [f"public {port}" for port in lacking]


def test_a_zone_that_accepts_everything_needs_nothing() -> None:
    seen = {"trusted": Zone("ACCEPT", ("eth0",))}
    assert opened(machine(now=seen, boot=seen)) == []


@pytest.mark.parametrize("said", [{}, {"now": {"public": OPEN}}, {"boot": {"public": OPEN}}])
def test_a_firewalld_that_says_nothing_is_named_and_nothing_is_opened(said: dict[str, Any]) -> None:
    """Its default zone may be that of another interface."""
    raw = machine(**said)
    assert opened(raw) == []
    want = firewall.wanted(["10250/tcp"])
    (problem,) = firewall.problems(parse(raw), "gpu-1", want)
    assert "does not tell its zones" in problem.cause
    assert firewall.problems(parse(raw), "gpu-1", firewall.wanted(())) == []


def test_a_zone_that_there_is_not_is_named() -> None:
    record = parse(machine(now={"public": OPEN}))
    assert firewall.unknown_zone(record, firewall.wanted((), "lan")) == ["public"]
    assert firewall.unknown_zone(record, firewall.wanted((), "public")) == []
    assert firewall.unknown_zone(record, firewall.wanted(())) == []
