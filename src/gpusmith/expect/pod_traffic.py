"""Networks of pods, of which firewalld has to accept all packets: those that a machine forwards as well as those to itself.

Open ports let in what is for the machine itself. What pods send is forwarded, and firewalld's nftables backend rejects that
after the pod network's own rules have accepted it, unless its zone's target is ACCEPT. What a Service's rules have translated, it
lets through. Source: measured with firewalld 1.3.3 and 2.3.1, tests/long/test_firewalld.py, 2026-11-25.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import NamedTuple

from gpusmith.expect import firewall
from gpusmith.probe.firewall import Firewall, Zone
from gpusmith.probe.record import Record
from gpusmith.problems import Cure, Problem

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
TRUSTED = "trusted"
"""The zone of firewalld that accepts everything."""
VARIABLE = "host_baseline_firewall_networks"
CONFLICT_STEP = f"Put it into a zone whose target is 'ACCEPT', or correct '{VARIABLE}'."


class Passage(NamedTuple):
    """A network that no zone accepts.

    Attributes:
        zone: that is to accept it.
        permanent: whether it lacks for good as well; otherwise only until the next boot.
    """

    zone: str
    network: str
    permanent: bool


class Conflict(NamedTuple):
    """A network that is a source of a zone which does not accept everything. firewalld has a source in one zone only."""

    zone: str
    network: str


def network_of(text: str) -> Network | None:
    """A network as firewalld lists it, for example '10.244.0.0/16'; None if it is written in another way."""
    try:
        found = ipaddress.ip_network(text)
    except ValueError:
        return None
    return found if str(found) == text else None


def is_usable(text: str) -> bool:
    """Whether the inventory may name it: a network as firewalld lists it, and not all addresses, which would let in everybody."""
    found = network_of(text)
    return found is not None and found.prefixlen > 0


def closed(record: Record, want: firewall.Wanted) -> list[Passage]:
    """What firewalld does not accept, be it now or for good; nothing where it does not run, and nothing of a conflict."""
    if not firewall.runs(record) or firewall.says_nothing(record):
        return []
    seen = record.firewall
    taken = {conflict.network for conflict in conflicts(record, want)}
    found = []
    for network in want.networks:
        now, boot = (_accepts(seen, zones, network) for zones in (seen.now, seen.boot))
        if network not in taken and not (now and boot):
            found.append(Passage(TRUSTED, network, not boot))
    return found


def _accepts(seen: Firewall, zones: Mapping[str, Zone], network: str) -> bool:
    if any(
        zone.target == firewall.EVERYTHING and any(_has(source, network) for source in zone.sources)
        for zone in zones.values()
    ):
        return True
    return _accepts_everything(seen, zones)


def _accepts_everything(seen: Firewall, zones: Mapping[str, Zone]) -> bool:
    """Packets of pods come in by the pod network's interfaces, which are in the default zone, and by the machine's own."""
    names = {seen.default_zone, firewall.zone_of(seen.interface, zones, seen.default_zone)}
    return all(zones.get(name, Zone()).target == firewall.EVERYTHING for name in names)


def _has(source: str, network: str) -> bool:
    """Whether a source of a zone, which may also be a set of addresses, has a network in it."""
    outer, inner = network_of(source), network_of(network)
    if isinstance(outer, ipaddress.IPv4Network) and isinstance(inner, ipaddress.IPv4Network):
        return inner.subnet_of(outer)
    if isinstance(outer, ipaddress.IPv6Network) and isinstance(inner, ipaddress.IPv6Network):
        return inner.subnet_of(outer)
    return source == network


def conflicts(record: Record, want: firewall.Wanted) -> list[Conflict]:
    """Networks that firewalld refuses to have in another zone."""
    if not firewall.runs(record):
        return []
    seen = record.firewall
    found = [
        Conflict(name, network)
        for network in want.networks
        for zones in (seen.now, seen.boot)
        for name, zone in zones.items()
        if network in zone.sources and zone.target != firewall.EVERYTHING
    ]
    return list(dict.fromkeys(found))


def is_unknown(record: Record, want: firewall.Wanted) -> bool:
    """Whether nobody has told the networks of pods, on a machine whose firewalld does not accept everything anyway."""
    seen = record.firewall
    return (
        not want.networks
        and firewall.runs(record)
        and not firewall.says_nothing(record)
        and not all(_accepts_everything(seen, zones) for zones in (seen.now, seen.boot))
    )


def problems(record: Record, node: str, want: firewall.Wanted) -> list[Problem]:
    """Networks that firewalld rejects although the inventory wants them to be accepted."""
    found = [
        Problem(
            f"Node '{node}': firewalld has '{network}' in zone '{zone}', which does not accept everything.",
            CONFLICT_STEP,
            {"firewalld_sources": [f"{zone} {network}"]},
        )
        for zone, network in conflicts(record, want)
    ]
    passages = closed(record, want)
    if passages:
        found.append(
            Problem(
                f"Node '{node}': firewalld rejects what pods send to each other: no zone accepts {in_words(passages)}.",
                "Run site.yml for the node.",
                {"firewalld_closed": [f"{each.zone} {each.network}" for each in passages]},
                Cure.HOST,
            )
        )
    return found


def in_words(passages: list[Passage]) -> str:
    """Networks, as part of a sentence."""
    return ", ".join(dict.fromkeys(each.network for each in passages))


def notes(record: Record, want: firewall.Wanted, opened: bool) -> list[str]:
    """What a person should know of a machine that is to become a node.

    Args:
        record: of the node.
        want: the networks, as far as somebody knows them.
        opened: whether the role lets them through.
    """
    setting = "'host_baseline_firewall: open'"
    if is_unknown(record, want):
        sources, lacks = "--add-source=NETWORK", ", unless a zone accepts the network of the pods"
        setting = f"'{VARIABLE}'" if opened else f"'{VARIABLE}' and {setting}"
    elif not opened and (passages := closed(record, want)):
        sources = " ".join(f"--add-source={each.network}" for each in passages)
        lacks = f"; no zone accepts {in_words(passages)}"
    else:
        return []
    words = (
        f"firewalld rejects what pods send to each other, even if all ports are open{lacks}: run"
        f" 'firewall-cmd --permanent --zone=trusted {sources}' and the same without '--permanent', or set {setting}"
    )
    return [words]
