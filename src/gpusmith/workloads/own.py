"""Workloads of a site's own, which the inventory describes (validation_workloads)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from gpusmith.checks.findings import Finding, Outcome, Skip
from gpusmith.errors import InputError
from gpusmith.problems import Problem
from gpusmith.wanted.node import NodeWanted
from gpusmith.workloads.judge import Judged, last_words, result_of
from gpusmith.workloads.pods import Pods
from gpusmith.workloads.register import ALL, workload
from gpusmith.workloads.states import state_of

VARIABLE = "validation_workloads"
FIRST_PLACE = 1000
Own = Mapping[str, Any]


def register(hosts: Iterable[NodeWanted]) -> None:
    """Register each that a host has, with its check 'workloads.NAME'.

    Raises:
        InputError: a name is taken, a workload needs more GPUs than a host has, or hosts give it different numbers of them.
    """
    known: dict[str, tuple[str, Own]] = {}
    for host in hosts:
        for row in host.validation.workloads:
            gpus = _gpus(row)
            if isinstance(gpus, int) and gpus > host.gpu_count:
                raise InputError(
                    f"Host '{host.name}': '{VARIABLE}' gives workload '{row['name']}' {gpus} GPUs, of {host.gpu_count}.",
                    "Give it fewer, or 'all'; where a host is to run without it, take it out of that host's list.",
                )
            first, other = known.setdefault(row["name"], (host.name, row))
            if _gpus(other) != _gpus(row):
                raise InputError(
                    f"Hosts '{first}' and '{host.name}': '{VARIABLE}' gives workload '{row['name']}' {_gpus(other)} and"
                    f" {_gpus(row)} GPUs.",
                    "Give it the same number on all hosts, or another name.",
                )
    for place, (name, (_host, row)) in enumerate(known.items(), FIRST_PLACE):
        try:
            workload(
                f"workloads.{name}",
                place=place,
                proves="the site's own workload ends well, and prints what it has to",
                fails_when="its exit code is not 0, or the expected text is missing",
                do=f"read its output in the evidence; '{VARIABLE}' of the inventory describes it",
                title=f"{name} on {{gpus}} GPUs",
                gpus=_gpus(row),
                after=["workloads.cuda"],
            )(partial(run, name=name))
        except InputError as error:
            raise InputError(
                f"'{VARIABLE}' has a workload '{name}', and check 'workloads.{name}' is there already.",
                "Give it another name.",
            ) from error


def _gpus(row: Own) -> int | Literal["all"]:
    found = str(row.get("gpus", "1"))
    return ALL if found == ALL else int(found)


def run(pods: Pods, name: str) -> Judged | Finding:
    """A Job with its image and command.

    Args:
        pods: of the workload.
        name: of the workload.
    """
    host = pods.node.host
    row = next((row for row in host.validation.workloads if row["name"] == name), None)
    if row is None:
        cause = f"'{VARIABLE}' of host '{host.name}' has no workload '{name}'."
        skip = Skip.NOT_APPLICABLE
        return Finding(
            f"workloads.{name}", host.name, Outcome.SKIPPED, cause, simulated=host.simulated, skip=skip
        )
    task = replace(pods.task(f"own-{name}", list(row["command"])), image=row["image"])
    log = pods.run_job(task)
    pod = pods.node.board.pod(pods.tasks[-1].name)
    failed = state_of(pod).ended or "no reason given" if pod and state_of(pod).phase == "Failed" else ""
    return judge(host.name, row, log, failed)


def judge(node: str, row: Own, log: str, failed: str = "") -> Judged:
    """It ended well and printed what it has to.

    Args:
        node: its name.
        row: the workload, as the inventory describes it.
        log: what it printed.
        failed: how its pod failed; empty if it did not.
    """
    # The programs of the suite end with a line of JSON; values in it are kept and compared.
    result = result_of(log) or {}
    evidence = {**result, "log": last_words(log)}
    expected = row.get("expect") or ""
    cause = ""
    if failed or result.get("ok") is False:
        cause = f"failed: {failed or result.get('error') or 'it says so'}"
    elif expected not in log:
        cause = f"did not print '{expected}'"
    step = f"Read its output in the evidence, or run it by hand: image '{row['image']}'."
    problems = [Problem(f"Node '{node}': workload '{row['name']}' {cause}.", step)] if cause else []
    return Judged(evidence, problems)
