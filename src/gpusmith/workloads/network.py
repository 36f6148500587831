"""A pod like any other finds a Service by name, and reaches it."""

from __future__ import annotations

from dataclasses import replace

from gpusmith.checks.findings import Finding, Outcome, Skip
from gpusmith.wanted.node import NodeWanted
from gpusmith.workloads import jobs
from gpusmith.workloads.judge import Expected, Judged, program_result
from gpusmith.workloads.pods import Pods
from gpusmith.workloads.register import workload

NO_NETWORK = "The inventory says that pods of new namespaces reach no Service: 'validation_network: false'."
# The resolver's own patience is 30 s and more for a server that does not answer.
PATIENCE = {"RES_OPTIONS": "timeout:2 attempts:2"}


def left_out(host: NodeWanted, check: str = "workloads.network") -> Finding:
    """What is recorded where the inventory says that there is no such network."""
    return Finding(
        check,
        host.name,
        Outcome.SKIPPED,
        NO_NETWORK,
        simulated=host.simulated,
        skip=Skip.NOT_APPLICABLE,
    )


def start(pods: Pods) -> None:
    """A Job without GPUs, started early: it waits for nothing but the network."""
    if pods.node.host.validation.network:
        pods.create(jobs.job, pods.task("network", jobs.program("reach_service.py"), env=PATIENCE))


@workload(
    "workloads.network",
    place=20,
    proves="a pod on the node resolves a Service by the cluster's DNS, and connects to its backend",
    fails_when="the name does not resolve or the connection fails; 'validation_network: false' leaves this check out",
    do="look at routes and kubelet's 'clusterDNS' on the node, at CoreDNS and kube-proxy",
    title="network",
    gpus=0,
    after=["workloads.pytorch", "workloads.tensorflow"],
    start=start,
)
def run(pods: Pods) -> Judged | Finding:
    """Wait for the Job that was started."""
    if not pods.node.host.validation.network:
        return left_out(pods.node.host)
    (task,) = pods.tasks
    return judge(pods.node.expected, pods.log_of_job(task))


def judge(expected: Expected, log: str) -> Judged:
    """It reached the Service.

    Args:
        expected: of the node.
        log: what the probe printed.
    """
    result, problems = program_result(expected, "the network probe", log)
    if result is not None:
        step = (
            f"Compare with a pod on another node; look at routes and kubelet's 'clusterDNS' on '{expected.node}', at CoreDNS"
            " and kube-proxy. Where policies forbid it to new namespaces: 'validation_network: false'."
        )
        problems = [replace(problem, next_step=step) for problem in problems]
    return Judged(dict(result or {}), problems)
