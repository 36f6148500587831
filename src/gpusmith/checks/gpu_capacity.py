"""Whether a node offers exactly the GPUs that it is to have, whoever counts them."""

from __future__ import annotations

from dataclasses import replace

from gpusmith.checks.cluster import ClusterFacts, need_view, spare
from gpusmith.checks.findings import NotApplicable
from gpusmith.checks.register import check
from gpusmith.cluster import operands as of_pod
from gpusmith.cluster.views import NodeView, gpu_mark
from gpusmith.data.operands import DEVICE_PLUGIN
from gpusmith.names import DEPLOY_LABEL, DEVICE_CLASS, GPU_RESOURCE
from gpusmith.problems import Problem
from gpusmith.wanted import expect_file, layouts
from gpusmith.wanted.node import NodeWanted
from gpusmith.wanted.offers import Offer, Offers, gpus_of, strange
from gpusmith.wording import shorten

READ_LOG = "Read the device plugin's log for the node."


@check(
    "cluster.gpu-capacity",
    place=50,
    proves=(
        "GPUs, or their shares or MIG instances, in capacity = allocatable = the inventory, and they are not offered under"
        " another name as well; where pods get GPUs by claims, the ResourceSlices of the node have the GPUs of its NVML"
    ),
    fails_when=(
        "the numbers differ, GPUs are shared or partitioned in another way than the node's layout, another resource offers them"
        " a second time, or a device plugin of others that hands them out by CDI has no specification on the node"
    ),
    do="read the device plugin's log for the node, look for a second one and for 'sharing' in its configuration",
    evidence=lambda facts: (
        {"capacity": dict(facts.view.capacity), "allocatable": dict(facts.view.allocatable)}
        if facts.view
        else {}
    ),
    explained_by=("nodes.gpu-count", "nodes.gpu-layout", "cluster.gpu-layout"),
)
def gpu_capacity(facts: ClusterFacts) -> list[Problem]:
    """Capacity = allocatable = inventory, and no GPU is offered under another name as well."""
    view = need_view(facts)
    if not facts.host.managed:
        return _others_capacity(facts, view)
    offers = view.offers(facts.host.gpu_count)
    others = _others(view, offers)
    problems = [
        Problem(
            f"Node '{view.name}' also offers {count} of '{name}', which the inventory does not know:"
            " GPUs can be given out twice.",
            "Look for another device plugin, or restart kubelet if it is the rest of one: kubectl get pods -A -o wide",
            {"others": others},
        )
        for name, count in others.items()
    ]
    short = [
        replace(found, next_step=_elsewhere(facts, view) or found.next_step)
        for offer in offers
        for found in _offered(view, offer, _restart(facts.host), facts.host.counted_by)
    ]
    return [*problems, *_unwritten(facts, view), *short, *([] if short else _other_gpus(facts, view))]


def _other_gpus(facts: ClusterFacts, view: NodeView) -> list[Problem]:
    """ResourceSlices with other GPUs than the machine's: a claim would be given one that its pod never sees."""
    if not view.layout.by_claims or facts.machine is None:
        return []
    told = {device.uuid for device in view.claimable if device.driver == DEVICE_CLASS}
    seen = {gpu.uuid for gpu in facts.machine.record.nvml.gpus if gpu.uuid}
    if told == seen or not seen:
        return []
    return [
        Problem(
            f"Node '{view.name}': its ResourceSlices have {shorten(sorted(told))}, NVML has {shorten(sorted(seen))}.",
            f"Read the DRA driver's log for the node; then {_restart(facts.host)}",
            {"slices": sorted(told), "nvml": sorted(seen)},
        )
    ]


def _others(view: NodeView, offers: Offers) -> dict[str, int]:
    """What is offered besides; not the rest of a former layout: kubelet names that for five minutes after its plugin has left.

    See endpointStopGracePeriod in pkg/kubelet/cm/devicemanager of Kubernetes 1.36.3.
    """
    return {
        name: count
        for name, count in strange(view.capacity, offers).items()
        if view.allocatable.get(name) or not layouts.hands_out(name)
    }


def _others_capacity(facts: ClusterFacts, view: NodeView) -> list[Problem]:
    """The same of a node that others set up: what they divide is theirs to count, and what they do not offer is missed."""
    if not any(view.capacity.values()):
        mark = gpu_mark(view.labels)
        told = f"its label '{mark}'" if mark else facts.host.counted_by
        cause = f"Node '{view.name}' has GPUs, as {told} says, and offers none of them."
        return [Problem(cause, _elsewhere(facts, view) or READ_LOG, {"label": mark})]
    unhealthy = {
        name: (view.allocatable.get(name, 0), count)
        for name, count in view.capacity.items()
        if view.allocatable.get(name, 0) != count
    }
    offers = view.offers(facts.host.gpu_count)
    how = view.divided(offers)
    if not (how or facts.host.pinned):
        (offer,) = offers
        return _offered(view, offer, _restart(facts.host), facts.host.counted_by)
    drift = _drift(facts.host, view)
    if not (unhealthy or facts.host.pinned):
        raise NotApplicable(f"Node '{view.name}' {how}: how many there should be is not known.")
    return drift + [
        Problem(
            f"Node '{view.name}': {there} of {count} of '{name}' are allocatable; the device plugin holds the others to be"
            " unhealthy, or kubelet lost it.",
            READ_LOG,
            {"capacity": count, "allocatable": there},
        )
        for name, (there, count) in unhealthy.items()
    ]


def _drift(host: NodeWanted, view: NodeView) -> list[Problem]:
    """How it differs from what it was measured to have."""
    now, then = expect_file.pinned(view), host.pinned or expect_file.pinned(view)
    causes = [
        f"Node '{view.name}' offers {now['capacity'].get(name, 0)} of '{name}', {host.counted_by} says"
        f" {then['capacity'].get(name, 0)}."
        for name in sorted({*now["capacity"], *then["capacity"]})
        if now["capacity"].get(name) != then["capacity"].get(name)
    ]
    causes += [
        f"Node '{view.name}': label '{name}' is '{now['labels'].get(name, '')}', {host.counted_by} says"
        f" '{then['labels'].get(name, '')}'."
        for name in sorted({*now["labels"], *then["labels"]})
        if now["labels"].get(name) != then["labels"].get(name)
    ]
    step = f"{READ_LOG} If the change is meant, measure again with --record."
    return [Problem(cause, step, {"expected": host.pinned}) for cause in causes]


def _unwritten(facts: ClusterFacts, view: NodeView) -> list[Problem]:
    """A device plugin of others whose GPUs containerd cannot find: it writes their specification once, when it starts."""
    if facts.machine is None or facts.machine.record.cdi.plugin_specs:
        return []
    if DEVICE_PLUGIN in facts.host.operands.ours or not any(view.allocatable.values()):
        return []
    pods = [name.split("/") for name in view.plugins_by_cdi]
    return [
        Problem(
            f"Node '{view.name}': device plugin '{namespace}/{name}' hands out GPUs by CDI, and its specification is not on"
            " the node, so no new pod gets a GPU.",
            f"Have its owner restart it, which writes it anew: kubectl -n {namespace} delete pod {name}",
            {"plugins": list(view.plugins_by_cdi)},
        )
        for namespace, name in pods
    ]


def _elsewhere(facts: ClusterFacts, view: NodeView) -> str:
    """What to do where the plugin's log does not tell: nobody's runs there, or it offers what the inventory leaves out."""
    # The capacity outlives a plugin by minutes.
    if DEVICE_PLUGIN not in facts.host.operands.ours and not (view.plugins or any(view.allocatable.values())):
        return _kept_off(view)
    return spare(facts, gpus_of(view.capacity, view.offers(facts.host.gpu_count)))


def _kept_off(view: NodeView) -> str:
    """What to do where there is no plugin whose log could be read."""
    value = view.labels.get(DEPLOY_LABEL, "true")
    if value == "true":
        return "No device plugin runs on the node: compare its labels and taints with the plugin's node selector and tolerations."
    return (
        f"No device plugin runs on the node: its label '{DEPLOY_LABEL}' is '{value}', by which the GPU Operator keeps the plugin"
        " off. Finish the operator's driver upgrade on the node, or have its owner set the label to 'true'."
    )


def _restart(host: NodeWanted) -> str:
    """How to restart the device plugin, or to have its owner restart it."""
    if DEVICE_PLUGIN not in host.operands.ours:
        return "have its owner restart it"
    served_by = layouts.operand(DEVICE_PLUGIN, host.layout)
    return f"restart it: {of_pod.restart_plugin(host.operands.namespace, host.node_name, served_by)}"


def _offered(view: NodeView, offer: Offer, restart: str, by: str) -> list[Problem]:
    """Why a node does not offer exactly what it is to."""
    capacity, wanted = view.capacity.get(offer.resource), offer.count
    allocatable = view.allocatable.get(offer.resource)
    if capacity == allocatable == wanted:
        return []
    evidence = {"capacity": capacity, "allocatable": allocatable, "inventory": wanted}
    whole = offer.resource in (GPU_RESOURCE, DEVICE_CLASS) and offer.count == offer.physical
    thing = "GPUs" if whole else offer.resource
    says = (
        f"{by} says {wanted}"
        if whole
        else f"{wanted} are to be ({offer.physical} GPUs with {wanted // offer.physical} {view.layout.part}s each)"
    )
    if capacity is None:
        cause = f"Node '{view.name}' offers no resource '{offer.resource}', {says}{' GPUs' if whole else ''}"
    elif allocatable != capacity:
        cause = (
            f"Node '{view.name}': {allocatable} of {capacity} {thing} are allocatable, {says};"
            " the device plugin holds the others to be unhealthy, or kubelet lost it"
        )
    elif whole and capacity > wanted and capacity % wanted == 0:
        cause = (
            f"Node '{view.name}' offers {capacity} GPUs, {capacity // wanted} times {by}'s {wanted},"
            " as with time slicing or MPS"
        )
        return [
            Problem(
                cause + ".",
                "Look for 'sharing' in the device plugin's configuration, and for a second device plugin:"
                " kubectl get pods -A -o wide",
                evidence,
            )
        ]
    else:
        cause = f"Node '{view.name}' offers {capacity} {thing}, {says}"
    return [
        Problem(
            cause + ".",
            f"Read the {'DRA driver' if view.layout.by_claims else 'device plugin'}'s log for the node; see nodes.gpu-count and"
            " nodes.xid." + ("" if allocatable else f" If those passed, {restart}"),
            evidence,
        )
    ]
