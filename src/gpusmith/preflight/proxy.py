"""Whether the proxies of the inventory take connections from the machine."""

from __future__ import annotations

from collections.abc import Iterator

from gpusmith.errors import Refusal
from gpusmith.inventory.proxy import SCHEMES
from gpusmith.preflight.asked import DRIVER_ONLY
from gpusmith.preflight.words import Facts, Tables, Wanted, refusal


def proxies(wanted: Wanted) -> list[str]:
    """Addresses that the machine is to be told of. An upgrade of the driver tells nobody."""
    if wanted.get("scope") == DRIVER_ONLY:
        return []
    given = [each or {} for each in wanted.get("proxies") or ()]
    return sorted({str(each[scheme]) for each in given for scheme in SCHEMES if each.get(scheme)})


def check_proxies(facts: Facts, _wanted: Wanted, _tables: Tables) -> Iterator[Refusal]:
    """No service is restarted for a proxy that nobody reaches, and no machine begins behind one: neither could fetch an image."""
    serves = facts["record"]["kubernetes"]["joined"]
    for url, row in facts["silent_proxies"].items():
        if not (serves and row["told"]):
            yield refusal(
                "proxy",
                f"'{url}' takes no connection from this machine ({row['error']})",
                "one that answers",
                "Correct 'gpusmith_proxy' in the inventory, or look at the proxy.",
            )


def kept_proxies(facts: Facts) -> list[str]:
    """What a person should know of a node that serves and was told before of a proxy that is silent now."""
    if not facts["record"]["kubernetes"]["joined"]:
        return []
    return [
        f"The proxy '{url}' takes no connection ({row['error']}); until it does, pods start only from images that the node has."
        for url, row in facts["silent_proxies"].items()
        if row["told"]
    ]
