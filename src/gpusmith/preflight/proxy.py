"""Whether the proxies that services are to be told of take connections from the machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpusmith.errors import Refusal
from gpusmith.inventory.proxy import addresses
from gpusmith.preflight.words import Facts, Tables, Wanted, refusal


def proxies(wanted: Wanted) -> list[dict[str, str]]:
    """What module preflight asks: keys url; file and line, by which the service knows it; and variable.

    Those of package managers need no question: a repository that is due says that it does not answer. An upgrade of the driver
    tells no service.
    """
    if wanted.driver_only:
        return []
    given = (
        ("containerd_proxy", wanted.node.containerd.proxy, "/etc/default/gpusmith-containerd"),
        ("kubernetes_node_proxy", wanted.node.kubernetes.proxy, "/etc/default/gpusmith-kubelet"),
    )
    return [
        {"url": url, "file": file, "line": f"{name}={url}", "variable": variable}
        for variable, proxy, file in given
        for name, url in addresses(proxy).items()
    ]


def check_proxies(facts: Facts, _wanted: Wanted, _tables: Tables) -> Iterator[Refusal]:
    """No service is restarted for a proxy that nobody reaches, and no machine begins behind one: neither could fetch an image."""
    serves = facts["record"]["kubernetes"]["joined"]
    for url, rows in _by_address(facts).items():
        new = [row for row in rows if not (serves and row["told"])]
        if new:
            names = " and ".join(repr(row["variable"]) for row in _once(new))
            yield refusal(
                "proxy",
                f"'{url}' takes no connection from this machine ({new[0]['error']})",
                "one that answers",
                f"Correct 'gpusmith_proxy' ({names}) in the inventory, or look at the proxy.",
            )


def kept_proxies(facts: Facts) -> list[str]:
    """What a person should know of a node that serves and was told before of a proxy that is silent now."""
    if not facts["record"]["kubernetes"]["joined"]:
        return []
    return [
        f"The proxy '{url}' takes no connection ({rows[0]['error']}). Until it does, nodes may fetch no images."
        for url, rows in _by_address(facts).items()
        if all(row["told"] for row in rows)
    ]


def _by_address(facts: Facts) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in facts["silent_proxies"]:
        found.setdefault(row["url"], []).append(row)
    return found


def _once(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({row["variable"]: row for row in rows}.values())
