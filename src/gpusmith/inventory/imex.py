"""Nodes of an IMEX domain: addresses that the service takes, and lists that fit together."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpusmith.errors import Refusal
from gpusmith.inventory.labels import must_be
from gpusmith.inventory.target import on_hosts
from gpusmith.inventory.templates import has_open
from gpusmith.wording import quoted

VARIABLE = "nvidia_driver_imex_nodes"
COMPONENTS = "nvidia_driver_components"
COMPONENT = "imex"
UNDECLARED = (
    f"'{VARIABLE}' names nodes, and '{COMPONENTS}' has no '{COMPONENT}', which brings the service.",
    f"Add '{COMPONENT}' to '{COMPONENTS}', or remove the list.",
)
"""What is wrong, and what to do."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def address(text: object) -> Address | None:
    """An IP address; None if it is none."""
    try:
        return ipaddress.ip_address(text) if isinstance(text, str) else None
    except ValueError:
        return None


def rules(name: str, value: Any) -> Iterator[Refusal]:
    """A list of IP addresses, each once: it becomes the file that the service reads, one address a line."""
    if not isinstance(value, list | tuple):
        # Its type is judged by the spec.
        return
    seen: set[Address] = set()
    for index, item in enumerate(value):
        if has_open(item):
            continue
        found = address(item)
        if found is None:
            yield must_be(f"{name}[{index}]", "an IP address, such as '10.0.0.1'", item)
        elif found in seen:
            yield must_be(name, "a list with each address once", f"{item!s} twice")
        else:
            seen.add(found)


def unfit(hosts: Mapping[str, Mapping[str, Any]]) -> list[Refusal]:
    """Lists without the part of the driver that reads them, and lists of one domain that differ.

    An instance of the service refuses others whose list is another one, or has another order, until all of them are stopped.
    """
    lists = {host: row for host, values in hosts.items() if (row := _of(values))}
    without = [host for host in lists if not _declared(hosts[host])]
    found = [on_hosts(Refusal(*UNDECLARED), without)] if without else []
    members: dict[tuple[str, ...], list[str]] = {}
    for host, row in lists.items():
        members.setdefault(row, []).append(host)
    rows = list(members)
    for number, row in enumerate(rows):
        for other in rows[number + 1 :]:
            if shared := _shared(row, other):
                two = [members[row][0], members[other][0]]
                cause = (
                    f"'{VARIABLE}' differs between nodes of one domain: both lists have {quoted(shared[:1])}."
                )
                hint = "Give all nodes of a domain the same list, in the same order."
                found.append(on_hosts(Refusal(cause, hint), two))
    return found


def _of(values: Mapping[str, Any]) -> tuple[str, ...]:
    """The list of a host; none if it is wrong, which the rules say, or has templates that are filled in later."""
    given = values.get(VARIABLE)
    if not isinstance(given, list | tuple) or any(address(item) is None for item in given):
        return ()
    return tuple(str(address(item)) for item in given)


def _declared(values: Mapping[str, Any]) -> bool:
    given = values.get(COMPONENTS) or ()
    return has_open(given) or (isinstance(given, list | tuple) and COMPONENT in given)


def _shared(row: Sequence[str], other: Sequence[str]) -> list[str]:
    return [each for each in row if each in other]
