"""Training steps over several nodes: one pod with all free GPUs on each, which find each other by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from gpusmith.checks.findings import Finding, NotApplicable
from gpusmith.problems import Problem
from gpusmith.workloads import jobs, network
from gpusmith.workloads.frameworks import NAMES, uuids
from gpusmith.workloads.jobs import PodTask
from gpusmith.workloads.judge import Expected, Judged, program_on_gpus
from gpusmith.workloads.pods import Pods
from gpusmith.workloads.register import ALL, workload
from gpusmith.workloads.waiting import NotLocal, PodProblem

BETWEEN = {"ib": "NET/IB", "socket": "NET/Socket", "nvlink": "P2P"}
"""What NCCL's log calls the ways that 'validation_transport' names."""


def run(*nodes: Pods, name: str) -> Judged | Finding:
    """A Job on each node, at the same time.

    Args:
        nodes: pods of each node.
        name: of the framework.
    """
    check, first = f"workloads.{name}-nodes", nodes[0].node
    if not first.host.validation.network:
        return network.left_out(first.host, check)
    gpus = min(pods.gpus for pods in nodes)
    job = "-".join([name, "nodes", *(pods.node.prefix for pods in nodes)])
    tasks = [pods.task(job, jobs.program(f"run_{name}.py"), gpus, job=job) for pods in nodes]
    first.cluster.create(f"/api/v1/namespaces/{first.run.namespace}/services", jobs.service(first.run, job))
    env = {
        "GPUSMITH_MEMBERS": ",".join(f"{task.name}.{job}" for task in tasks),
        "GPUSMITH_NODES": ",".join(pods.node.host.name for pods in nodes),
    }
    made = [
        replace(task, hostname=task.name, env={**env, "GPUSMITH_PLACE": str(place)})
        for place, task in enumerate(tasks)
    ]
    for pods, task in zip(nodes, made, strict=True):
        pods.create(jobs.job, task)
    logs = [_log(pods, task) for pods, task in zip(nodes, made, strict=True)]
    return judge([pods.node.expected for pods in nodes], name, logs, gpus, first.host.validation.transport)


def _log(pods: Pods, task: PodTask) -> str:
    try:
        return pods.log_of_job(task)
    except NotLocal as error:
        cause = (
            f"not applicable: node '{pods.node.host.name}' gives no pod {task.gpus} GPUs: {error.message}."
        )
        raise NotApplicable(cause) from error
    except PodProblem as error:
        error.message = f"on node '{pods.node.host.name}': {error.message}"
        raise


for _place, (_name, _title) in zip((56, 57), NAMES.items(), strict=True):
    workload(
        f"workloads.{_name}-nodes",
        place=_place,
        proves=f"a {_title} job over all free GPUs of two or three nodes trains: its pods find and reach each other, whole"
        " numbers that all ranks add up are exact, and all ranks end with the weights of the closed form",
        fails_when=f"a pod does not reach another, {_title}'s ranks do not form a group, a rank ends early, results are wrong or"
        " differ, or data takes another way than 'validation_transport'",
        do="look at the pod network between the nodes that are named, and at the fabric's ports on both",
        title=f"{_title} on {{gpus}} GPUs of each of several nodes",
        gpus=ALL,
        nodes=2,
        up_to=3,
        image=_name,
        after=[f"workloads.{_name}", "workloads.network"],
    )(partial(run, name=_name))


def judge(
    expected: Sequence[Expected], name: str, logs: Sequence[str], gpus: int, transport: str = "any"
) -> Judged:
    """Every pod ran on GPUs of its host, all had the same result, and no GPU was in the job twice.

    Args:
        expected: of each node.
        name: of the framework.
        logs: what each pod printed, in the order of nodes.
        gpus: how many each pod was given.
        transport: 'ib', 'socket' or 'nvlink': the way that data must take between nodes; 'any' accepts all.
    """
    what = f"the {name} program"
    each = [
        _at_the_network(program_on_gpus(node, what, log, gpus, uuids))
        for node, log in zip(expected, logs, strict=True)
    ]
    problems = [problem for judged in _roots(each) for problem in judged.problems]
    evidence = {
        "nodes": {
            node.node: {key: judged.evidence[key] for key in OWN if key in judged.evidence}
            for node, judged in zip(expected, each, strict=True)
        },
        **{key: value for key, value in each[0].evidence.items() if key in SHARED},
    }
    if not problems:
        problems = [*_same(expected, each), *_way(expected, each, transport)]
    return Judged(evidence, problems, of_host=True)


def _at_the_network(judged: Judged) -> Judged:
    """What to do about a pod that does not reach another one."""
    if not judged.evidence.get("unreached"):
        return judged
    step = (
        "Look at the pod network between these nodes: routes, firewalls, MTU. Where policies forbid it to new namespaces:"
        " 'validation_network: false'."
    )
    return replace(judged, problems=[replace(problem, next_step=step) for problem in judged.problems])


def _roots(each: Sequence[Judged]) -> list[Judged]:
    """Pods that failed, without those that only miss another one of them."""
    failed = [judged for judged in each if judged.problems]
    died = [judged for judged in failed if judged.evidence.get("died")]
    alone = [judged for judged in failed if not judged.evidence.get("unreached")]
    return died or alone or failed


OWN = ("uuids", "devices", "transports", "connected_s", "not_executed", "error")
"""What the result of a pod says of itself."""
SHARED = (
    "framework",
    "world",
    "backend",
    "all_reduce_gb_s",
    "slowest",
    "loss_first",
    "loss_last",
    "max_difference",
)
"""What the result of each pod says of all of them."""


def _same(expected: Sequence[Expected], each: Sequence[Judged]) -> list[Problem]:
    names = ", ".join(f"'{node.node}'" for node in expected)
    twice = [
        uuid
        for uuid, count in Counter(u for judged in each for u in uuids(judged.evidence)).items()
        if count > 1
    ]
    found = []
    if twice:
        cause = f"Nodes {names}: pods of different nodes had the same GPU: {', '.join(twice)}."
        found.append(Problem(cause, "Compare 'nvidia-smi -L' on these nodes; see cluster.node-identity."))
    for key, words in (("weights", "other weights"), ("world", "another number of ranks")):
        first = each[0].evidence.get(key)
        for node, judged in zip(expected, each, strict=True):
            if judged.evidence.get(key) != first:
                cause = (
                    f"Node '{node.node}': its ranks ended with {words} than those of '{expected[0].node}'."
                )
                found.append(
                    Problem(cause, "Run the job by hand on these nodes; look at ECC errors of their GPUs.")
                )
    return found


def _way(expected: Sequence[Expected], each: Sequence[Judged], transport: str) -> list[Problem]:
    found = []
    for node, judged in zip(expected, each, strict=True):
        ways = [str(way) for way in judged.evidence.get("transports") or []]
        # Gloo, which stands in on simulated GPUs, and TensorFlow on CPUs write no log.
        if node.simulated or transport not in BETWEEN:
            continue
        taken = any(way.startswith(BETWEEN[transport]) for way in ways)
        # Within a node NVLink is P2P as well.
        if not taken or (transport == "nvlink" and any(way.startswith("NET/") for way in ways)):
            cause = f"Node '{node.node}': NCCL's data takes {', '.join(ways) or 'no way that its log names'}, not '{transport}'."
            step = (
                "Look whether its fabric's ports are up and whether pods are given the fabric's devices; correct"
                " 'validation_transport' if the inventory is wrong."
            )
            found.append(Problem(cause, step))
    return found
