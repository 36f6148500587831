"""Whether nodes offer their devices to the scheduler."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from gpusmith.cluster.api import Cluster
from gpusmith.cluster.views import nodes_of, offered, readiness
from gpusmith.wait import Deadline, Done, NotYet, WaitTimeout, wait_until
from gpusmith.wanted import layouts
from gpusmith.wanted.offers import gpus_of

TICK_S = 1.0


@dataclass(frozen=True)
class Offered:
    """What a node offers.

    Attributes:
        ready: as it says of itself.
        allocatable: GPUs that pods can get.
        reached: it is Ready, offers what it is to and carries the labels.
        seen: the same in words.
        next_step: what to do if it offers more than it is to, which no waiting changes; empty if there is hope.
    """

    ready: bool
    allocatable: int
    reached: bool
    seen: str
    next_step: str = ""


def compare(
    node: Mapping[str, Any] | None, gpus: int, labels: Sequence[str] = (), spare: str = ""
) -> Offered:
    """Compare a Node object with what is expected of it.

    Args:
        node: None if the cluster has none.
        gpus: that it has; what it is to offer of them goes by its layout.
        labels: names of labels that must be there too.
        spare: what to do if it offers more.
    """
    state = readiness(node)
    if node is None:
        return Offered(False, 0, False, state.seen)
    counts, offers = offered(node), layouts.of_node(node).offers(gpus)
    missing = [label for label in labels if label not in (node["metadata"].get("labels") or {})]
    more = any(counts.get(offer.resource, 0) > offer.count for offer in offers)
    complete = all(counts.get(offer.resource, 0) == offer.count for offer in offers)
    words = ", ".join(f"{counts.get(row.resource, 0)} of {row.count} {row.resource}" for row in offers)
    return Offered(
        state.ready,
        gpus_of(counts, offers),
        state.ready and complete and not missing,
        f"{'Ready' if state.ready else 'not Ready'} with {words}"
        + (f", without {', '.join(missing)}" if missing else ""),
        spare if state.ready and more else "",
    )


def wait_for(
    cluster: Cluster,
    expected: Mapping[str, int],
    labels: Sequence[str],
    timeout_s: float,
    spare: Mapping[str, str],
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Offered]:
    """What was seen last, by name of the node; one look at the cluster answers for all.

    Args:
        cluster: the API.
        expected: GPUs of nodes, by name.
        labels: names of labels that must be there too.
        timeout_s: 0 for one look.
        spare: by name, what to do about GPUs of the node that it is not to offer and that its device plugin sees.
        sleep: replaced in tests.
    """
    found: dict[str, Offered] = {}

    def look() -> Done[None] | NotYet:
        nodes = {row["metadata"]["name"]: row for row in nodes_of(cluster)}
        for name, gpus in expected.items():
            found[name] = compare(nodes.get(name), gpus, labels, spare.get(name, ""))
        late = [f"{name}: {row.seen}" for name, row in found.items() if not (row.reached or row.next_step)]
        return NotYet("; ".join(late)) if late else Done(None)

    # What was seen is returned: the caller names the node that is late.
    with suppress(WaitTimeout):
        wait_until("the GPUs of all nodes", look, Deadline(timeout_s), TICK_S, sleep)
    return found
