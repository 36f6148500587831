"""A pod like any other finds a Service by name, and reaches it."""

from __future__ import annotations

from dataclasses import replace

from gpusmith.checks.findings import Finding, Outcome, Skip
from gpusmith.inventory.host import Host
from gpusmith.workloads import jobs
from gpusmith.workloads.jobs import PodTask
from gpusmith.workloads.judge import Expected, Judged, program_result
from gpusmith.workloads.pods import Pods

CHECK = "workloads.network"
NO_NETWORK = "The inventory says that pods of new namespaces reach no Service: 'validation_network: false'."
# The resolver's own patience is 30 s and more for a server that does not answer.
PATIENCE = {"RES_OPTIONS": "timeout:2 attempts:2"}


def left_out(host: Host) -> Finding:
    """What is recorded where the inventory says that there is no such network."""
    return Finding(
        CHECK, host.name, Outcome.SKIPPED, NO_NETWORK, simulated=host.simulated, skip=Skip.NOT_APPLICABLE
    )


def start(pods: Pods) -> PodTask:
    """A Job without GPUs, started early: it waits for nothing but the network."""
    command = jobs.program("reach_service.py")
    probe = pods.task("network", pods.node.host.images.cuda, command, 0, env=PATIENCE)
    pods.create(jobs.job, probe)
    return probe


def run(pods: Pods, probe: PodTask) -> Judged:
    """Wait for the Job that was started."""
    return judge(pods.node.expected, pods.log_of_job(probe))


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
