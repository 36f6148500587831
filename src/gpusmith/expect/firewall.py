"""Ports that firewalld has to let in, now and after the next boot, in the zone by which the machine is reached."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpusmith.probe.firewall import Zone
from gpusmith.probe.record import Record
from gpusmith.problems import Cure, Problem

FIREWALLD = "firewalld"
EVERYTHING = "ACCEPT"


@dataclass(frozen=True)
class Wanted:
    """What the inventory says.

    Attributes:
        ports: that are to be open, for example '30000-32767/tcp'.
        zone: in which; empty for that of the interface of the default route.
        networks: whose packets are to be accepted, whatever they are for: see 'pod_traffic'.
    """

    ports: tuple[str, ...]
    zone: str = ""
    networks: tuple[str, ...] = ()


class Opening(NamedTuple):
    """A port, or a part of a range, that a zone does not let in.

    Attributes:
        permanent: whether the zone lacks it for good as well; otherwise only until the next boot.
    """

    zone: str
    port: str
    permanent: bool


class Range(NamedTuple):
    """Ports of a protocol."""

    protocol: str
    first: int
    last: int


def wanted(ports: Iterable[object], zone: object = "", networks: Iterable[object] = ()) -> Wanted:
    """By variables of role host_baseline."""
    return Wanted(tuple(map(str, ports)), str(zone or ""), tuple(map(str, networks)))


def runs(record: Record) -> bool:
    """Whether firewalld rules the machine."""
    there = record.services.get(FIREWALLD)
    return there is not None and there.active == "active"


def says_nothing(record: Record) -> bool:
    """Whether firewalld runs and did not tell its zones, as while it restarts: nobody knows then which one counts."""
    return runs(record) and not (record.firewall.now and record.firewall.boot)


def zones(record: Record, asked: str = "") -> tuple[str, ...]:
    """That by which the machine is reached now, and the one after the next boot if it is another one."""
    if asked:
        return (asked,)
    seen = record.firewall
    return tuple(
        dict.fromkeys(zone_of(seen.interface, by, seen.default_zone) for by in (seen.now, seen.boot))
    )


def zone_of(interface: str, by_name: Mapping[str, Zone], default: str) -> str:
    """The zone of an interface."""
    return next((name for name, zone in by_name.items() if interface in zone.interfaces), default)


def closed(record: Record, want: Wanted) -> list[Opening]:
    """What firewalld does not let in, be it now or for good; nothing where it does not run.

    Of a range only what lacks: firewalld merges ranges that overlap, and a removal could not tell ours from the site's.
    """
    if not runs(record) or says_nothing(record):
        return []
    return [
        opening
        for zone in zones(record, want.zone)
        for port in want.ports
        for opening in _openings(record, zone, port)
    ]


def _openings(record: Record, zone: str, port: str) -> list[Opening]:
    now, boot = (state.get(zone, Zone()) for state in (record.firewall.now, record.firewall.boot))
    lasting = [] if boot.target == EVERYTHING else _missing(boot.ports, port)
    passing = [] if now.target == EVERYTHING else _missing((*now.ports, *lasting), port)
    return [Opening(zone, part, True) for part in lasting] + [Opening(zone, part, False) for part in passing]


def _missing(there: Iterable[str], port: str) -> list[str]:
    """Parts of a range that others do not have; the port itself if it cannot be read, which firewalld then refuses."""
    needed = range_of(port)
    if needed is None:
        return [] if port in there else [port]
    first, parts = needed.first, []
    for other in sorted(filter(None, map(range_of, there))):
        if other.protocol != needed.protocol or other.last < first or other.first > needed.last:
            continue
        if first < other.first:
            parts.append(_port(first, other.first - 1, needed.protocol))
        first = other.last + 1
    if first <= needed.last:
        parts.append(_port(first, needed.last, needed.protocol))
    return parts


def _port(first: int, last: int, protocol: str) -> str:
    return f"{first}/{protocol}" if first == last else f"{first}-{last}/{protocol}"


def range_of(port: str) -> Range | None:
    """A port or a range of ports, for example '30000-32767/tcp'; None if it is written in another way."""
    written = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?/(tcp|udp|sctp|dccp)", port)
    if written is None:
        return None
    first, last, protocol = written.groups()
    return Range(protocol, int(first), int(last or first))


def noted(record: Record, opened: Iterable[tuple[str, str, bool]]) -> str:
    """Text of the file by which a removal knows what was opened, once these are; empty if none of them is for good.

    What the site opened for good stays open.

    Args:
        record: of the node.
        opened: zone, port or network, and whether for good.
    """
    lasting = [f"{zone} {what}" for zone, what, permanent in opened if permanent]
    lines = dict.fromkeys([*record.firewall.opened, *lasting]) if lasting else ()
    return "".join(f"{line}\n" for line in lines)


def in_words(openings: Sequence[Opening]) -> str:
    """Ports by zone, as part of a sentence."""
    names = dict.fromkeys(each.zone for each in openings)
    return "; ".join(
        f"{', '.join(each.port for each in openings if each.zone == name)} (zone '{name}')" for name in names
    )


def problems(record: Record, node: str, want: Wanted) -> list[Problem]:
    """A firewall that keeps ports closed which the inventory wants to be open.

    Args:
        record: of the node.
        node: how messages name it.
        want: without ports where firewalls are not ours to change.
    """
    if (want.ports or want.networks) and says_nothing(record):
        return [
            Problem(
                f"Node '{node}': firewalld runs and does not tell its zones.",
                f"Look at 'firewall-cmd --list-all-zones' and 'systemctl status firewalld' on '{node}', then run again.",
                {"firewalld_zones": []},
            )
        ]
    found = closed(record, want)
    if not found:
        return []
    return [
        Problem(
            f"Node '{node}': firewalld keeps closed: {in_words(found)}.",
            "Run site.yml for the node.",
            {"firewalld_closed": [f"{each.zone} {each.port}" for each in found]},
            Cure.HOST,
        )
    ]


def unknown_zone(record: Record, want: Wanted) -> list[str]:
    """The zones that there are, if the wanted one is not among them."""
    known = sorted(record.firewall.now)
    return known if want.zone and runs(record) and known and want.zone not in known else []
