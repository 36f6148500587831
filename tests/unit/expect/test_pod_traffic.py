"""Networks of pods go through firewalld where that is asked for, and what nobody has told is told before a machine is a node."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from gpusmith.expect import firewall, forecast, plans, pod_traffic
from gpusmith.node.records import parse
from gpusmith.probe.firewall import Firewall, Zone
from tests.unit.expect.converged import SETTINGS, converged_record

RUNS = {"active": "active", "enabled": "enabled"}
PODS, PODS6 = "10.244.0.0/16", "fd00:10:244::/56"
BARE = {"public": Zone(interfaces=("eth0",)), "trusted": Zone("ACCEPT"), "work": Zone()}
ADD = "firewall-cmd --permanent --zone=trusted --add-source="


def sources(*networks: str, zone: str = "trusted", target: str = "ACCEPT") -> dict[str, Zone]:
    return {**BARE, zone: Zone(target, sources=networks)}


def machine(runs: bool = True, **seen: Any) -> dict[str, Any]:
    record = converged_record()
    record["firewall"] = asdict(Firewall(**{"interface": "eth0", "now": BARE, "boot": BARE, **seen}))
    if runs:
        record["services"]["firewalld"] = RUNS
    return record


def plan(record: dict[str, Any], *networks: str) -> dict[str, Any]:
    return plans.host_baseline(record, {**SETTINGS["host_baseline"], "networks": networks or (PODS,)})


def let_through(record: dict[str, Any], *networks: str) -> list[str]:
    rows = plan(record, *networks)["networks"]
    return [f"{row['zone']} {row['network']}{'' if row['permanent'] else ' now'}" for row in rows]


def notes(record: dict[str, Any], *networks: str, opened: bool = False) -> list[str]:
    return pod_traffic.notes(parse(record), firewall.wanted((), "", networks), opened)


def test_a_network_that_no_zone_accepts_is_named_and_let_through() -> None:
    record = machine(opened=("public 1/tcp",))
    found = plan(record, PODS, PODS6)
    assert let_through(record, PODS, PODS6) == [f"trusted {PODS}", f"trusted {PODS6}"]
    words = f"firewalld rejects what pods send to each other: no zone accepts {PODS}, {PODS6}"
    assert found["problems"] == [words]
    assert found["firewall_noted"] == f"public 1/tcp\ntrusted {PODS}\ntrusted {PODS6}\n"
    more = forecast.of_role("host_baseline", found)["changes"]["more"]
    assert more[0] == f"firewalld accepts all that comes from {PODS} (zone 'trusted')"
    assert let_through(machine(False)) == []
    # While it restarts nobody knows its zones.
    assert let_through(machine(now={})) == []
    assert "does not tell its zones" in plan(machine(now={}))["problems"][0]


def test_it_has_to_be_accepted_now_and_for_good() -> None:
    yes = sources(PODS)
    assert let_through(machine(now=yes, boot=yes)) == []
    assert let_through(machine(now=yes)) == [f"trusted {PODS}"]
    # What is the site's own for good is let through now, and no removal takes it away.
    assert let_through(machine(boot=yes)) == [f"trusted {PODS} now"]
    assert plan(machine(boot=yes))["firewall_noted"] == ""


@pytest.mark.parametrize(
    ("zones", "network", "accepted"),
    [
        (sources("10.0.0.0/8"), PODS, True),
        (sources("10.244.0.0/24"), PODS, False),
        (sources("fd00::/8"), PODS6, True),
        (sources("ipset:pods", "fd00::/8"), PODS, False),
        (sources(PODS, zone="pods"), PODS, True),
    ],
)
def test_what_the_site_has_let_through_is_left_where_it_is(
    zones: dict[str, Zone], network: str, accepted: bool
) -> None:
    assert (let_through(machine(now=zones, boot=zones), network) == []) == accepted


def test_a_machine_whose_zones_accept_everything_needs_nothing() -> None:
    """Interfaces of the pod network are in the default zone, packets of other nodes come in by the machine's own."""
    own = {"trusted": Zone("ACCEPT", ("eth0",)), "public": Zone()}
    default = {"public": Zone("ACCEPT"), "work": Zone(interfaces=("eth0",))}
    both = {"public": Zone("ACCEPT")}
    assert let_through(machine(now=own, boot=own)) == [f"trusted {PODS}"]
    assert let_through(machine(now=default, boot=default)) == [f"trusted {PODS}"]
    assert let_through(machine(now=both, boot=both)) == []
    assert notes(machine(now=both, boot=both)) == []


def test_a_network_in_another_zone_is_for_a_person() -> None:
    """firewalld refuses a source that another zone has."""
    there = sources(PODS, zone="work", target="default")
    found = plan(machine(now=there, boot=there), PODS)
    assert found["networks"] == []
    words = f"firewalld has '{PODS}' in zone 'work', which does not accept everything"
    assert found["problems"] == found["boot"] == [words]
    # Not what to do about files of the boot.
    assert found["hints"] == [pod_traffic.CONFLICT_STEP]


def test_what_is_rejected_is_told_with_the_command() -> None:
    (unknown,) = notes(machine())
    assert "unless a zone accepts the network of the pods" in unknown
    assert f"'{ADD}NETWORK'" in unknown
    assert unknown.endswith("or set 'host_baseline_firewall_networks' and 'host_baseline_firewall: open'")
    # Ports alone would be opened.
    (ports_only,) = notes(machine(), opened=True)
    assert ports_only.endswith("or set 'host_baseline_firewall_networks'")
    (known,) = notes(machine(), PODS, PODS6)
    assert f"no zone accepts {PODS}, {PODS6}: run '{ADD}{PODS} --add-source={PODS6}'" in known
    assert notes(machine(), PODS, opened=True) == []
    assert notes(machine(False)) == notes(machine(now={})) == []
    assert notes(machine(now=sources(PODS), boot=sources(PODS)), PODS) == []
