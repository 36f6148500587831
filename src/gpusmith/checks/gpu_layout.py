"""Whether a node hands its GPUs out as the inventory asks: whole, or each in parts."""

from __future__ import annotations

from gpusmith.checks.cluster import ClusterFacts, need_view
from gpusmith.checks.findings import NotApplicable
from gpusmith.checks.register import check
from gpusmith.cluster.views import NodeView
from gpusmith.data.operands import DEVICE_PLUGIN, FEATURE_DISCOVERY
from gpusmith.names import LAYOUT_LABEL, REPLICAS_LABEL, SHARING_LABEL
from gpusmith.problems import Problem
from gpusmith.wanted import layouts


@check(
    "cluster.gpu-layout",
    place=52,
    proves=(
        "the node hands its GPUs out as the inventory asks, whole, by claims, in shares or in MIG instances, and feature"
        " discovery says the same"
    ),
    fails_when=(
        f"label '{LAYOUT_LABEL}' is not that of the inventory's 'gpusmith_gpu_sharing', or no layout at all, or label"
        f" '{REPLICAS_LABEL}' counts other shares, or '{SHARING_LABEL}' names another way"
    ),
    do="change the node's layout with playbooks/change_layout.yml, or set the inventory back",
    evidence=lambda facts: (
        {name: facts.view.labels.get(name) for name in (LAYOUT_LABEL, REPLICAS_LABEL, SHARING_LABEL)}
        if facts.view
        else {}
    ),
    managed_only=True,
)
def gpu_layout(facts: ClusterFacts) -> list[Problem]:
    """The layout that the Node has is the one that it is to have."""
    view, host = need_view(facts), facts.host
    label = view.labels.get(LAYOUT_LABEL)
    if DEVICE_PLUGIN not in host.operands.ours and label is None and not host.layout.label:
        raise NotApplicable(
            f"The cluster's own device plugin serves node '{view.name}'; see cluster.gpu-capacity for what it offers."
        )
    # An empty one keeps the device plugin of whole GPUs off as well.
    if label is not None and not (label and layouts.of_label(label)):
        change = (
            f"{LAYOUT_LABEL}={host.layout.label} --overwrite" if host.layout.label else f"{LAYOUT_LABEL}-"
        )
        return [
            Problem(
                f"Node '{view.name}': label '{LAYOUT_LABEL}' is '{label}', which is no layout of gpusmith: no device plugin"
                " serves the node.",
                f"When no pod holds its GPUs, set the label right: kubectl label node {view.name} {change}",
            )
        ]
    drift = [
        Problem(
            f"Node '{view.name}' hands out {view.layout.words}, the inventory asks for {host.layout.words}.",
            "Change it, which waits for pods that hold its GPUs:"
            f" 'ansible-playbook -i INVENTORY playbooks/change_layout.yml -l {host.name}'. Or set the inventory back.",
        )
    ]
    return [*(drift if view.layout != host.layout else ()), *_told(facts, view)]


def _told(facts: ClusterFacts, view: NodeView) -> list[Problem]:
    """What our feature discovery says; that it says nothing at all is for cluster.labels to find."""
    if FEATURE_DISCOVERY not in facts.host.operands.ours or REPLICAS_LABEL not in view.labels:
        return []
    wrong = [
        *([REPLICAS_LABEL] if layouts.told(view.labels) != view.layout.replicas else []),
        *([SHARING_LABEL] if layouts.other_sharing(view.labels, view.layout) else []),
    ]
    return [
        Problem(
            f"Node '{view.name}' hands out {view.layout.words}, GPU feature discovery says otherwise: label '{label}' is"
            f" '{view.labels[label]}'.",
            "Read the log of GPU feature discovery on the node; see cluster.operands.",
        )
        for label in wrong
    ]
