"""Pods without a GPU request see no GPU, whatever they ask their runtime for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpusmith.problems import Problem
from gpusmith.workloads import jobs
from gpusmith.workloads.judge import Expected, Judged, program_result
from gpusmith.workloads.pods import Pods
from gpusmith.workloads.register import workload

EVERYTHING = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "all"}

STEP = (
    "Set 'accept-nvidia-visible-devices-envvar-when-unprivileged = false'"
    " in /etc/nvidia-container-runtime/config.toml,"
    " and run no workload with the nvidia runtime by default."
)
OF_OPERATOR = (
    "With the GPU Operator, these are its values 'toolkit.env' (ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED) and"
    " 'devicePlugin.env' (DEVICE_LIST_STRATEGY), or 'cdi.enabled' of its newer releases."
)


def start(pods: Pods) -> None:
    """Jobs without a request, started early so that they also bring the largest image to the node."""
    host, command = pods.node.host, jobs.program("look_around.py")
    probes = [
        pods.task(
            "no-request", command, image="tensorflow" if host.validation.images.get("tensorflow") else "cuda"
        ),
        pods.task("visible-all", command, env=EVERYTHING),
    ]
    if host.operands.runtime_class in pods.node.target.runtime_classes:
        of_class = pods.task(
            "visible-all-runtime", command, env=EVERYTHING, runtime_class=host.operands.runtime_class
        )
        probes.append(of_class)
    for probe in probes:
        pods.create(jobs.job, probe)


@workload(
    "workloads.isolation",
    place=80,
    proves="pods without a GPU request see no GPU, also with NVIDIA_VISIBLE_DEVICES=all",
    fails_when="such a pod sees, opens or creates a GPU's device node, or the RuntimeClass for the test is missing",
    do="set 'accept-nvidia-visible-devices-envvar-when-unprivileged = false' in the runtime's config.toml, or run site.yml",
    title="isolation",
    gpus=0,
    after=["workloads.network"],
    start=start,
)
def run(pods: Pods) -> Judged:
    """Wait for the Jobs that were started."""
    node = pods.node
    logs = {probe.name: pods.log_of_job(probe) for probe in pods.tasks}
    name = node.host.operands.runtime_class
    there = name in node.target.runtime_classes or not node.host.managed
    missing = [] if there else [_without_class(node.host.name, name)]
    step = STEP if node.host.managed else f"{STEP} {OF_OPERATOR}"
    judged = judge(node.expected, logs, f"{node.prefix}-", step)
    return replace(judged, problems=[*missing, *judged.problems])


def _without_class(node: str, name: str) -> Problem:
    return Problem(
        f"Node '{node}': what a pod with RuntimeClass '{name}' sees was not tested: the cluster has no such class.",
        "Run site.yml; see cluster.runtime-class.",
    )


def judge(expected: Expected, logs: Mapping[str, str], prefix: str, step: str = STEP) -> Judged:
    """None of them saw a GPU.

    Args:
        expected: of the node.
        logs: what each pod printed, by its name.
        prefix: that the names have on this node; evidence leaves it out.
        step: what to do about one that did.
    """
    evidence: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, log in logs.items():
        result, wrong = program_result(expected, f"isolation probe '{name}'", log)
        evidence[name.removeprefix(prefix)] = dict(result or {})
        if result is not None:
            wrong = [replace(problem, next_step=step) for problem in wrong]
        problems.extend(wrong)
    return Judged(evidence, problems)
