"""Everything that a run made is gone."""

from __future__ import annotations

import time
from dataclasses import replace

from gpusmith.checks.findings import Finding, Outcome
from gpusmith.checks.register import CLUSTER, check
from gpusmith.cluster.api import Cluster
from gpusmith.names import RUN_LABEL
from gpusmith.workloads import namespace
from gpusmith.workloads.jobs import Run

CHECK = "workloads.cleanup"


@check(
    CHECK,
    place=90,
    proves="everything that the run created is removed",
    fails_when="the run's namespace still exists some time after its removal",
    do="find out what blocks its removal: kubectl get namespace NAME -o yaml",
    per_node=False,
)
def found(left: Finding) -> Finding:
    """The run itself has looked."""
    return left


def run(cluster: Cluster, of: Run) -> Finding:
    """Remove the run's namespace; in one that stays, what the run made."""
    begin = time.monotonic()
    left = namespace.clear(cluster, of) if of.within else namespace.remove(cluster, of.namespace)
    found = judge(of.namespace, left, time.monotonic() - begin)
    if not (left and of.within):
        return found
    return replace(
        found,
        cause=f"What this run made in namespace '{of.within}' is still there: {left}",
        next_step=f"Find what holds it: kubectl -n {of.within} get jobs,pods -l {RUN_LABEL}={of.id}",
    )


def judge(name: str, left: str, duration_s: float) -> Finding:
    """The namespace is gone.

    Args:
        name: of the namespace.
        left: why it is still there; empty if it is gone.
        duration_s: seconds that its removal took.
    """
    evidence = {"namespace": name}
    if not left:
        return Finding(CHECK, CLUSTER, Outcome.PASSED, evidence=evidence, duration_s=duration_s)
    cause = f"Namespace '{name}' of this run is still there: {left}."
    step = f"Find what holds it: kubectl get namespace {name} -o yaml"
    return Finding(CHECK, CLUSTER, Outcome.FAILED, cause, evidence, step, duration_s=duration_s)


def nothing_made() -> Finding:
    """Of a run in which no node got a workload."""
    return Finding(CHECK, CLUSTER, Outcome.PASSED, evidence={"made": "nothing"})
