"""Whether nodes offer their devices to the scheduler."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from gpusmith.cluster.api import Cluster
from gpusmith.cluster.holders import quantity
from gpusmith.cluster.views import NODES, readiness
from gpusmith.wait import Deadline, Done, NotYet, WaitTimeout, wait_until

TICK_S = 1.0


@dataclass(frozen=True)
class Offer:
    """What a node offers.

    Attributes:
        ready: as it says of itself.
        allocatable: number of devices.
        reached: it is Ready, offers what is expected and carries the labels.
        seen: the same in words.
    """

    ready: bool
    allocatable: int
    reached: bool
    seen: str


def offer_of(node: Mapping[str, Any] | None, wanted: int, resource: str, labels: Sequence[str] = ()) -> Offer:
    """Compare a Node object with what is expected of it.

    Args:
        node: None if the cluster has none.
        wanted: number of devices.
        resource: name of the extended resource.
        labels: names of labels that must be there too.
    """
    state = readiness(node)
    if node is None:
        return Offer(False, 0, False, state.seen)
    offered = (node.get("status") or {}).get("allocatable") or {}
    allocatable = quantity(offered.get(resource)) or 0
    missing = [label for label in labels if label not in (node["metadata"].get("labels") or {})]
    return Offer(
        state.ready,
        allocatable,
        state.ready and allocatable == wanted and not missing,
        f"{'Ready' if state.ready else 'not Ready'} with {allocatable} of {wanted} {resource}"
        + (f", without {', '.join(missing)}" if missing else ""),
    )


def wait_for(
    cluster: Cluster,
    expected: Mapping[str, int],
    resource: str,
    labels: Sequence[str],
    timeout_s: float,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Offer]:
    """What was seen last, by name of the node; one list call per look answers for all.

    Args:
        cluster: the API.
        expected: number of devices, by name of the node.
        resource: name of the extended resource.
        labels: names of labels that must be there too.
        timeout_s: 0 for one look.
        sleep: replaced in tests.
    """
    offers: dict[str, Offer] = {}

    def look() -> Done[None] | NotYet:
        nodes = {row["metadata"]["name"]: row for row in cluster.items(NODES)}
        for name, wanted in expected.items():
            offers[name] = offer_of(nodes.get(name), wanted, resource, labels)
        late = [f"{name}: {offer.seen}" for name, offer in offers.items() if not offer.reached]
        return NotYet("; ".join(late)) if late else Done(None)

    # What was seen is returned: the caller names the node that is late.
    with suppress(WaitTimeout):
        wait_until("the GPUs of all nodes", look, Deadline(timeout_s), TICK_S, sleep)
    return offers
