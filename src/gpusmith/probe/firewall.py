"""firewalld: what its zones let in, now and from the next boot on, as it says itself."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gpusmith.probe.commands import Command
from gpusmith.probe.files import read_text

CONFIGURATION = "/etc/firewalld/firewalld.conf"
DEFAULT_ZONE = "public"
# The first one wins.
SERVICES = ("/etc/firewalld/services", "/usr/lib/firewalld/services")
ROUTES, ROUTES6 = "/proc/net/route", "/proc/net/ipv6_route"
NOT_RUNNING = 252
PORT = re.compile(r'<port\b(?=[^>]*\bport="([0-9-]+)")(?=[^>]*\bprotocol="(\w+)")')
INCLUDE = re.compile(r'<include\b[^>]*\bservice="([^"]+)"')


@dataclass(frozen=True)
class Zone:
    """What one zone lets in.

    Attributes:
        target: what happens to all else; 'ACCEPT' lets everything in.
        interfaces: that are put into it; the others are in the default zone.
        ports: for example '10250/tcp', also those of its services.
    """

    target: str = "default"
    interfaces: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()


@dataclass(frozen=True)
class Firewall:
    """What firewalld lets in. Whether it runs, services tell.

    Attributes:
        default_zone: of interfaces without one.
        interface: by which the machine is reached, that of the default route; empty if there is none.
        now: zones by name; empty if firewalld does not say.
        boot: zones by name, as the next boot and a reload make them.
    """

    default_zone: str = DEFAULT_ZONE
    interface: str = ""
    now: Mapping[str, Zone] = field(default_factory=dict)
    boot: Mapping[str, Zone] = field(default_factory=dict)


def default_zone(text: str) -> str:
    """By the text of firewalld's configuration."""
    found = re.search(r"(?m)^\s*DefaultZone\s*=\s*(\S+)", text)
    return found.group(1) if found else DEFAULT_ZONE


def interface(routes: str, routes6: str) -> str:
    """That of the default route with the least metric, by the kernel's tables; of IPv6 where IPv4 has none."""
    rows = [line.split() for line in routes.splitlines()]
    found = [(int(row[6]), row[0]) for row in rows if len(row) > 7 and row[1] == row[7] == "0" * 8]
    rows6 = [line.split() for line in routes6.splitlines()]
    found6 = [(int(row[5], 16), row[9]) for row in rows6 if len(row) > 9 and row[0] == "0" * 32]
    # The kernel keeps a default route for IPv6 on the loopback interface, which refuses.
    found6 = [each for each in found6 if each[1] != "lo"]
    return min(found or found6, default=(0, ""))[1]


def service_text(name: str) -> str:
    """Text of the file of a service; empty if there is none."""
    return next(filter(None, (read_text(os.path.join(folder, name + ".xml")) for folder in SERVICES)), "")


def service_ports(name: str, text_of: Callable[[str], str], seen: tuple[str, ...] = ()) -> list[str]:
    """Ports of a service and of those that it includes."""
    text = text_of(name)
    included = [other for other in INCLUDE.findall(text) if other not in (*seen, name)]
    own = [f"{port}/{protocol}" for port, protocol in PORT.findall(text)]
    return own + [port for other in included for port in service_ports(other, text_of, (*seen, name))]


def zones(text: str, text_of: Callable[[str], str] = service_text) -> dict[str, Zone]:
    """Zones by name, from what 'firewall-cmd --list-all-zones' prints."""
    found = {}
    for block in text.split("\n\n"):
        head, _unused, body = block.strip("\n").partition("\n")
        if not head or head[0].isspace():
            continue
        rows = dict(re.findall(r"(?m)^  ([a-z-]+): *(.*?) *$", body))
        ports = rows.get("ports", "").split()
        for service in rows.get("services", "").split():
            ports += service_ports(service, text_of)
        found[head.split()[0]] = Zone(
            rows.get("target", "default"),
            tuple(rows.get("interfaces", "").split()),
            tuple(dict.fromkeys(ports)),
        )
    return found


def ask() -> tuple[Command, Command]:
    """Start firewalld's program, where it is installed, for what is so now and what will be."""
    return Command("firewall-cmd", "--list-all-zones"), Command(
        "firewall-cmd", "--permanent", "--list-all-zones"
    )


def gather(asked: tuple[Command, Command], errors: list[str]) -> Firewall:
    """What firewalld says."""
    now, boot = (zones(command.output(errors, accept=(0, NOT_RUNNING)) or "") for command in asked)
    return Firewall(
        default_zone(read_text(CONFIGURATION) or ""),
        interface(read_text(ROUTES) or "", read_text(ROUTES6) or ""),
        now,
        boot,
    )
