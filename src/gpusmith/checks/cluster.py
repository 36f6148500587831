"""Checks of the cluster tier on a node as the cluster has it: pure functions over one snapshot of the API's lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from gpusmith.checks.findings import CannotAsk, NotApplicable
from gpusmith.checks.register import check
from gpusmith.cluster import operands as of_pod
from gpusmith.cluster.managed_fields import title
from gpusmith.cluster.views import NodeView
from gpusmith.data.operands import DEVICE_PLUGIN, FEATURE_DISCOVERY, Operand, deployed
from gpusmith.expect import gpus, identity
from gpusmith.expect.identity import Machine
from gpusmith.expect.versions import answers, upstream
from gpusmith.names import (
    COUNT_LABEL,
    DRIVER_LABEL,
    GPU_TYPE_LABEL,
    GPUS_LABEL,
    OPERANDS_LABEL,
    SIMULATED_LABEL,
)
from gpusmith.problems import Cure, Problem
from gpusmith.wanted import layouts
from gpusmith.wanted.node import NodeWanted

SITE = "Run site.yml for the node."


@dataclass(frozen=True)
class ClusterFacts:
    """What a check of a node as the cluster has it gets.

    Attributes:
        host: what the inventory says.
        node_name: of the Node object.
        view: the Node object; None if the cluster has none.
        ready_operands: namespace and operand of those that serve on any node.
        foreign_fields: as of Snapshot.
        machine: what the host leads to; None if it did not answer, or was not asked.
        was_asked: the machine was.
    """

    host: NodeWanted
    node_name: str
    view: NodeView | None
    ready_operands: frozenset[tuple[str, str]] = frozenset()
    foreign_fields: Mapping[str, Sequence[str]] = field(default_factory=dict)
    machine: Machine | None = None
    was_asked: bool = True


def need_view(facts: ClusterFacts) -> NodeView:
    """The Node object, which the cluster must have."""
    if facts.view is None:
        raise CannotAsk(f"The cluster has no node '{facts.node_name}'; see cluster.node-ready.")
    return facts.view


def need_asked(facts: ClusterFacts) -> None:
    """The machine was asked: what only that tells is not part of a look at the cluster alone."""
    if not facts.was_asked:
        raise NotApplicable(f"The machine of node '{facts.host.name}' was not asked: only the cluster was.")


def _placement(facts: ClusterFacts) -> dict[str, Any]:
    """What keeps pods off the node, also what is not judged: a cordon or a foreign taint may be meant."""
    if facts.view is None:
        return {}
    taints = [
        [str(row.get("key")), str(row.get("value") or ""), str(row.get("effect"))]
        for row in facts.view.taints
    ]
    notes = [f"a condition of somebody else's, which is not judged: {row}" for row in facts.view.unjudged]
    return {
        "unschedulable": facts.view.unschedulable,
        "taints": taints,
        **({"notes": notes} if notes else {}),
    }


@check(
    "cluster.node-ready",
    place=40,
    proves="the Node exists, is Ready and is not under pressure",
    fails_when="the cluster has no such Node, it is not Ready, or a condition names pressure or something broken",
    do="read 'journalctl -u kubelet' on the node; if the node is missing, join it with site.yml",
    evidence=_placement,
    explained_by=("nodes.reachable", "nodes.identity", "nodes.services"),
)
def node_ready(facts: ClusterFacts) -> list[Problem]:
    """It exists, and is Ready."""
    if facts.view is None:
        return [
            Problem(
                f"The cluster has no node '{facts.node_name}' (host '{facts.host.name}').",
                "Run site.yml, which joins it. If its Node was deleted, 'systemctl restart kubelet' on"
                f" '{facts.host.name}' makes it anew.",
                cure=Cure.JOIN,
            )
        ]
    if facts.view.ready and not facts.view.conditions:
        return []
    seen = "; ".join(facts.view.conditions) or "it has no condition 'Ready'"
    return [
        Problem(
            f"Node '{facts.node_name}' is {'under pressure' if facts.view.ready else 'not Ready'}: {seen}.",
            f"Read 'journalctl -u kubelet' on '{facts.host.name}'.",
            {"conditions": list(facts.view.conditions)},
        )
    ]


@check(
    "cluster.node-identity",
    place=45,
    proves="the machine that answers is the one whose kubelet reported the Node's data to the cluster",
    fails_when="the Node has another machine ID, or is Ready with another boot ID than the machine's",
    do="correct 'ansible_host' before any change to the node, or find the copy of its disk",
    evidence=lambda facts: {"node": asdict(facts.view.told)} if facts.view else {},
    explained_by=("nodes.identity",),
)
def node_identity(facts: ClusterFacts) -> list[Problem]:
    """Machine ID and boot ID of the machine are those of the Node, which the playbooks ask for as well."""
    view = need_view(facts)
    need_asked(facts)
    if facts.machine is None:
        raise CannotAsk(f"There is no record of node '{facts.host.name}'; see nodes.reachable.")
    if facts.machine.name != facts.machine.node:
        raise CannotAsk(
            f"The machine at the address of '{facts.host.name}' is not its node; see nodes.identity."
        )
    nodes = identity.Nodes({facts.machine.node: view.told})
    return list(identity.judge(facts.machine, identity.Machines([]), nodes).problems)


def spare(facts: ClusterFacts, count: int | str) -> str:
    """What to do about more GPUs than the inventory counts, if it leaves out some that operands see; else empty."""
    more = int(count) > facts.host.gpu_count
    return gpus.seen_by_operands(facts.machine.record.pci) if more and facts.machine else ""


@check(
    "cluster.labels",
    place=60,
    proves="the Node has the labels by which schedulers and operands select it",
    fails_when="a label of gpusmith or of the inventory has another value, or feature discovery described the node differently",
    do="run site.yml; read the logs of GPU feature discovery and node feature discovery",
    explained_by=("nodes.gpu-count",),
    managed_only=True,
)
def labels(facts: ClusterFacts) -> list[Problem]:
    """Our labels, the inventory's, and the one that feature discovery writes."""
    view, host = need_view(facts), facts.host
    wanted = {
        **host.kubernetes.labels,
        **({GPU_TYPE_LABEL: host.gpu_model} if host.gpu_model else {}),
        **({GPUS_LABEL: str(host.gpu_count)} if host.gpu_count else {}),
        **({OPERANDS_LABEL: "enabled"} if host.operands.ours else {}),
        **({SIMULATED_LABEL: "true"} if host.simulated else {}),
    }
    wrong = {key: view.labels.get(key) for key, value in wanted.items() if view.labels.get(key) != value}
    problems = [
        Problem(
            f"Node '{view.name}': label '{key}' is {seen!r}, it must be '{wanted[key]}'.",
            SITE,
            {"labels": {key: seen}},
            Cure.LABELS,
        )
        for key, seen in wrong.items()
    ]
    if not host.simulated and view.labels.get(SIMULATED_LABEL) == "true":
        problems.append(
            Problem(
                f"Node '{view.name}' is labelled as simulated, the inventory says that its GPUs are real.",
                "Correct 'gpusmith_simulated' in the inventory, or run site.yml.",
                {"labels": {SIMULATED_LABEL: "true"}},
                Cure.LABELS,
            )
        )
    found = view.labels.get(COUNT_LABEL)
    if found is None and (FEATURE_DISCOVERY in host.operands.ours or view.discovered):
        problems.append(
            Problem(
                f"Node '{view.name}' has no label '{COUNT_LABEL}': GPU feature discovery did not describe it.",
                "Read the logs of GPU feature discovery and of node feature discovery.",
            )
        )
    elif found is not None and found != str(host.gpu_count):
        problems.append(
            Problem(
                f"Node '{view.name}': GPU feature discovery counts {found} GPUs, the inventory says {host.gpu_count}.",
                spare(facts, found) or "See nodes.gpu-count.",
                {"labels": {COUNT_LABEL: found}},
            )
        )
    described = view.labels.get(DRIVER_LABEL)
    # The inventory may name a packager's revision, which the driver does not know of.
    if found is not None and described is not None and not answers(described, upstream(host.driver.version)):
        problems.append(
            Problem(
                f"Node '{view.name}': label '{DRIVER_LABEL}' is '{described}', the inventory's driver is {host.driver.version}.",
                "See nodes.driver-versions; if that passes, read the log of GPU feature discovery.",
                {"labels": {DRIVER_LABEL: described}},
            )
        )
    return problems


@check(
    "cluster.taints",
    place=70,
    proves="the Node has the inventory's taints",
    fails_when="a taint of the inventory is missing; taints of others are only shown as evidence",
    do="run site.yml for the node",
    evidence=_placement,
    managed_only=True,
)
def taints(facts: ClusterFacts) -> list[Problem]:
    """The inventory's taints are there."""
    view = need_view(facts)

    def flat(row: Mapping[str, Any]) -> tuple[str, str, str]:
        return str(row.get("key")), str(row.get("value") or ""), str(row.get("effect", "NoSchedule"))

    present = {flat(row) for row in view.taints}
    return [
        Problem(
            f"Node '{view.name}' lacks taint '{key}={value}:{effect}', so pods without GPUs can take its place.",
            SITE,
            {"taints": [list(row) for row in sorted(present)]},
            Cure.LABELS,
        )
        for key, value, effect in map(flat, facts.host.kubernetes.taints)
        if (key, value, effect) not in present
    ]


@check(
    "cluster.operands",
    place=80,
    proves="the device plugin and the other operands of the node are ready, and gpusmith's are as site.yml made them",
    fails_when=(
        "one of their pods is missing or not ready, there is a second device plugin, or somebody else set a field of"
        " gpusmith's objects"
    ),
    do="read the pod's log; agree with its owner which device plugin stays; run site.yml, which restores gpusmith's fields",
    explained_by=("nodes.nvml",),
)
def operands(facts: ClusterFacts) -> list[Problem]:
    """Pods of the operands' namespace on the node are ready; operands of ours have one there, and are as site.yml made them."""
    view, host = need_view(facts), facts.host
    if not host.managed:
        return _plugins_of_others(view)
    if not host.operands.ours:
        raise NotApplicable(
            f"The cluster's own operands serve node '{view.name}'; see cluster.gpu-capacity for what they do."
        )
    problems = [
        Problem(
            f"Node '{view.name}': operand '{host.operands.namespace}/{pod['metadata']['name']}': {wrong}.",
            of_pod.next_step(pod),
            {"pod": pod["metadata"]["name"]},
        )
        for pod in view.system_pods
        if (wrong := of_pod.problem(pod))
    ]
    if DEVICE_PLUGIN in host.operands.ours:
        problems += [
            Problem(
                f"Node '{view.name}': pod '{name}' is a second device plugin; the last one that starts takes the GPUs over,"
                " and none has them when it ends.",
                "Ask its owner which of the two stays. If it is theirs, set 'gpu_operands_device_plugin: existing';"
                " if it is ours, restart it once theirs is gone: "
                + of_pod.restart_plugin(facts.host.operands.namespace, facts.host.node_name),
                {"plugins": list(view.plugins)},
            )
            for name in view.plugins
        ]
    where = (
        "Run site.yml, which applies it; if it is there, look at:"
        f" kubectl -n {host.operands.namespace} get daemonsets,pods -o wide"
    )
    ours = _ours(host)
    present = {of_pod.name(pod) for pod in view.system_pods}
    problems += [
        Problem(
            f"Node '{view.name}' runs no pod of operand '{name}' in namespace '{host.operands.namespace}'.",
            where,
            {"present": sorted(present)},
            Cure.OPERANDS,
        )
        for name in (layouts.operand(row.daemon_set, view.layout) for row in ours)
        if name not in present
    ]
    problems += [
        Problem(
            f"No pod of '{row.deployment}' is ready in namespace '{host.operands.namespace}': what {row.name} finds on node"
            f" '{view.name}' does not become labels.",
            "Run site.yml, which applies it; if it is there, look at:"
            f" kubectl -n {host.operands.namespace} get deployments,pods -o wide",
            cure=Cure.OPERANDS,
        )
        for row in ours
        if row.deployment and (host.operands.namespace, row.deployment) not in facts.ready_operands
    ]
    return problems + _foreign_fields(facts, view)


def _plugins_of_others(view: NodeView) -> list[Problem]:
    """Two device plugins on a node, whosever; pods of one DaemonSet that follow each other are one."""
    owners = {
        name.rpartition("-")[0]: owner for name, owner in zip(view.plugins, view.plugin_owners, strict=True)
    }
    if len(owners) < 2:
        return []
    named = " and ".join(f"'{name}' of {owner}" for name, owner in sorted(owners.items()))
    return [
        Problem(
            f"Node '{view.name}' has several device plugins, {named}: the last one that starts takes the GPUs over, and none"
            " has them when it ends.",
            "Agree with their owners which one stays, and keep the other off the node by its own settings.",
            {"plugins": list(view.plugins)},
        )
    ]


def _ours(host: NodeWanted) -> list[Operand]:
    return [row for row in deployed() if row.component in host.operands.ours]


def _foreign_fields(facts: ClusterFacts, view: NodeView) -> list[Problem]:
    """What others set in the operands that are ours: a device plugin with other settings is not what the inventory means."""
    host = facts.host
    names = [layouts.daemon_set(row.daemon_set, view.layout) for row in _ours(host)]
    ours = [title("DaemonSet", name, host.operands.namespace) for name in names]
    found = {
        name: list(facts.foreign_fields[name])
        for name in (*ours, title("RuntimeClass", host.operands.runtime_class))
        if name in facts.foreign_fields
    }
    return [
        Problem(
            f"Node '{view.name}': in {name} somebody else than site.yml set {', '.join(fields)}.",
            "Run site.yml.",
            {"foreign_fields": found},
            Cure.OPERANDS,
        )
        for name, fields in found.items()
    ]
