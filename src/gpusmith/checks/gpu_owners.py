"""Whether a GPU can be given to two pods, by the device plugin and by a driver of Dynamic Resource Allocation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpusmith.checks.cluster import ClusterFacts, need_view
from gpusmith.checks.register import check
from gpusmith.cluster.views import NodeView
from gpusmith.problems import Problem
from gpusmith.wording import quoted, shorten


@check(
    "cluster.gpu-owners",
    place=55,
    proves="no GPU is offered by the device plugin and by a DRA driver at once",
    fails_when="the device plugin and ResourceSlices offer more GPUs together than the node has",
    do="keep one owner: take either the device plugin or the DRA driver off the node, see 'kubectl get resourceslices'",
    evidence=lambda facts: _owners(facts.view) if facts.view else {},
)
def gpu_owners(facts: ClusterFacts) -> list[Problem]:
    """Device plugin and DRA drivers know nothing of each other: each gives out all that it offers."""
    view, gpus = need_view(facts), facts.host.gpu_count
    offers = view.offers(gpus)
    if not view.offered_twice(offers, gpus):
        return []
    drivers = quoted(sorted({device.driver for device in view.claimable}))
    named = shorten([device.uuid or device.name for device in view.claimable])
    held = ", ".join(holder.words for holder in view.claimants)
    return [
        Problem(
            f"Node '{view.name}' has {gpus} GPUs; the device plugin offers {view.of_plugin(offers)} and"
            f" DRA driver {drivers} offers {len(view.claimable)}, {named}: a GPU can be given to two pods at once."
            + (f" By claims they are held by {held}." if held else ""),
            "Let one of the two go: keep the DaemonSet of the DRA driver off the node by its node selector, or the device plugin."
            f" Look at: kubectl get resourceslices --field-selector spec.nodeName={view.name}",
            _owners(view),
        )
    ]


def _owners(view: NodeView) -> Mapping[str, Any]:
    drivers: dict[str, list[str]] = {}
    for device in view.claimable:
        drivers.setdefault(device.driver, []).append(device.uuid or device.name)
    return {"device_plugin": dict(view.capacity), "dra": drivers}
