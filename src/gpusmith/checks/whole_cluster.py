"""Checks of the cluster tier that concern no single node: whether it answers, what all nodes share, what runs left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpusmith.checks.findings import NotApplicable
from gpusmith.checks.register import Reads, check
from gpusmith.cluster.snapshot import Snapshot
from gpusmith.errors import GpusmithError
from gpusmith.names import PURPOSE, PURPOSE_LABEL
from gpusmith.problems import Cure, Problem
from gpusmith.wanted.node import NodeWanted


@dataclass(frozen=True)
class ClusterAnswer:
    """What came of asking the cluster.

    Attributes:
        trouble: why it cannot be asked; None if it can.
        nodes: names of its nodes.
    """

    trouble: GpusmithError | None
    nodes: Sequence[str] = ()


@dataclass(frozen=True)
class Removed:
    """What was done about the namespaces of earlier runs.

    Attributes:
        dead: of runs that no longer live; they were removed.
        alive: of other runs that go on now.
        stuck: those of the dead that cannot be removed, with the reason.
        within: the namespace that stays, where these are ConfigMaps of runs in it; else empty.
    """

    dead: Sequence[str] = ()
    alive: Sequence[str] = ()
    stuck: Mapping[str, str] = field(default_factory=dict)
    within: str = ""


@dataclass(frozen=True)
class WholeCluster:
    """What a check of the cluster as a whole gets.

    Attributes:
        hosts: what the inventory says.
        snapshot: the lists.
        removed: namespaces of earlier runs; None if this run may make nothing, and so looked for none.
    """

    hosts: Sequence[NodeWanted]
    snapshot: Snapshot
    removed: Removed | None


@check(
    "cluster.api",
    place=10,
    proves="the API server answers and the lists could be read",
    fails_when="the kubeconfig is wrong, the API server does not answer, or a list is refused (an error, not a failure)",
    do="try 'kubectl get nodes' with the inventory's kubeconfig; docs/validation.md has the rights that the suite needs",
    per_node=False,
    reads=Reads.ANSWER,
    evidence=lambda answer: {"nodes": sorted(answer.nodes)},
)
def api(answer: ClusterAnswer) -> list[Problem]:
    """It could be asked.

    Raises:
        GpusmithError: why not: that says nothing about the cluster's GPUs.
    """
    if answer.trouble is not None:
        raise answer.trouble
    return []


@check(
    "cluster.runtime-class",
    place=20,
    proves="the RuntimeClass of the GPU runtime is there",
    fails_when="the cluster has no RuntimeClass with the inventory's name, or class 'nvidia' has another handler",
    do="run site.yml; delete a class with another handler first, since a handler cannot be changed",
    per_node=False,
    managed_only=True,
    evidence=lambda facts: {"runtime_classes": dict(facts.snapshot.runtime_classes)},
)
def runtime_class(facts: WholeCluster) -> list[Problem]:
    """Every RuntimeClass that the inventory names is there."""
    problems = []
    for name in sorted(
        {host.operands.runtime_class for host in facts.hosts}
        | {host.validation.runtime_class for host in facts.hosts if host.validation.runtime_class}
    ):
        handler = facts.snapshot.runtime_classes.get(name)
        if handler is None:
            problems.append(
                Problem(
                    f"The cluster has no RuntimeClass '{name}'.",
                    "Run site.yml.",
                    {"runtime_classes": dict(facts.snapshot.runtime_classes)},
                    Cure.OPERANDS,
                )
            )
        elif name == "nvidia" and handler != "nvidia":
            problems.append(
                Problem(
                    f"RuntimeClass '{name}' has handler '{handler}', not 'nvidia'.",
                    f"A handler cannot be changed: 'kubectl delete runtimeclass {name}', then run site.yml.",
                    {"handler": handler},
                )
            )
    return problems


@check(
    "cluster.leftovers",
    place=30,
    proves="nothing is left of an earlier run",
    fails_when="the namespace of a run that has ended cannot be removed",
    do="find out what blocks its removal: kubectl get namespace NAME -o yaml",
    per_node=False,
    evidence=lambda facts: (
        {"removed": list(facts.removed.dead), "other_runs": list(facts.removed.alive)}
        if facts.removed
        else {}
    ),
)
def leftovers(facts: WholeCluster) -> list[Problem]:
    """What an earlier run left could be removed."""
    if facts.removed is None:
        raise NotApplicable("Not applicable: the suite makes nothing in this cluster.")
    within = facts.removed.within
    if within:
        return [
            Problem(
                f"What an earlier run made in namespace '{within}' cannot be removed: {why}",
                f"Look at: kubectl -n {within} get jobs,pods -l {PURPOSE_LABEL}={PURPOSE}",
            )
            for why in facts.removed.stuck.values()
        ]
    return [
        Problem(
            f"Namespace '{name}' of an earlier run cannot be removed: {why}.",
            f"Look at: kubectl get namespace {name} -o yaml",
        )
        for name, why in facts.removed.stuck.items()
    ]
