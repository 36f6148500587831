"""GPUs of a run that are slower than their like, also those of models that no table knows."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpusmith.checks.findings import Finding, NotApplicable, merge
from gpusmith.checks.register import Reads, check
from gpusmith.data import baselines
from gpusmith.data.baselines import VALUES
from gpusmith.problems import Problem
from gpusmith.wanted.node import NodeWanted
from gpusmith.workloads.outcome import NodeOutcome, not_made
from gpusmith.workloads.performance import CHECK as MEASURED
from gpusmith.workloads.performance import WHAT, excuse

CHECK = "workloads.uniformity"
STEP = "Compare the GPU with its like: memory errors, clocks, PCIe link, cooling, the slot."

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Like:
    """GPUs of one name.

    Attributes:
        count: how many were measured.
        medians: of their values.
    """

    count: int
    medians: Mapping[str, float]


@dataclass(frozen=True)
class OfRun:
    """A node among those of its run.

    Attributes:
        host: the node.
        outcome: what its workloads came to.
        alike: GPUs of the run by name, of which there are enough for a median.
    """

    host: NodeWanted
    outcome: NodeOutcome
    alike: Mapping[str, Like]


def alike(outcomes: Iterable[NodeOutcome]) -> dict[str, Like]:
    """All GPUs that were measured, by name."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in (row for outcome in outcomes for row in _measured(outcome)):
        found.setdefault(str(row["name"]), []).append(row)
    return {
        name: Like(
            len(rows), {value: round(statistics.median(row[value] for row in rows), 1) for value in VALUES}
        )
        for name, rows in found.items()
        if len(rows) >= baselines.of_file().alike_least
    }


def _measured(outcome: NodeOutcome) -> Rows:
    finding = outcome.findings.get(MEASURED)
    rows = finding.evidence.get("devices", ()) if finding else ()
    return [row for row in rows if row.keys() >= set(VALUES)]


@check(
    CHECK,
    place=59,
    proves="no GPU of the node is slower than the others of its model in this run, whether or not a table knows the model",
    fails_when="a rate of workloads.performance is below its part of the median of GPUs of that name, at least four of them",
    do="compare the GPU with its like: memory errors, clocks, PCIe link, cooling, the slot",
    reads=Reads.FLEET,
)
def uniformity(of_run: OfRun) -> Finding:
    """Every rate against the median of its like."""
    host, own = of_run.host, _measured(of_run.outcome)
    if not own:
        because = of_run.outcome.findings[MEASURED]
        return not_made(CHECK, host, f"nothing was measured; see {MEASURED}.", because)
    return judge(host, own, of_run.alike)


def judge(host: NodeWanted, own: Rows, alike: Mapping[str, Like]) -> Finding:
    """The finding on a node.

    Args:
        host: the node.
        own: rates of its GPUs.
        alike: as of OfRun.

    Raises:
        NotApplicable: there are too few of them.
    """
    compared = {name: like for name, like in alike.items() if name in {row["name"] for row in own}}
    if not compared:
        raise NotApplicable(
            f"Node '{host.name}': not applicable: a median needs {baselines.of_file().alike_least} GPUs of a model that were"
            " measured in one run."
        )
    problems = [
        problem
        for row in own
        if row["name"] in compared
        for problem in _slow(host.name, row, compared[row["name"]])
    ]
    medians = {name: {"gpus": like.count, **like.medians} for name, like in compared.items()}
    return merge(CHECK, host.name, problems, host.simulated, {"medians": medians})


def _slow(node: str, row: Mapping[str, Any], like: Like) -> Iterator[Problem]:
    for name, part in baselines.of_file().alike.items():
        median = like.medians[name]
        if row[name] < part * median and not excuse(row, name, recorded=False):
            what, unit = WHAT[name]
            cause = (
                f"Node '{node}': {row['uuid']}: {what} at {row[name]:g} {unit}, the median of {like.count} GPUs like it is"
                f" {median:g}; {part:.0%} of that must be."
            )
            yield Problem(cause, STEP)
