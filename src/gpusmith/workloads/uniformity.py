"""GPUs of a run that are slower than their like, also those of models that no table knows."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpusmith.checks.findings import Finding, NotApplicable, merge
from gpusmith.checks.register import Reads, check
from gpusmith.data import baselines
from gpusmith.problems import Problem
from gpusmith.wanted.node import NodeWanted
from gpusmith.workloads.outcome import NodeOutcome, not_made
from gpusmith.workloads.performance import CHECK as MEASURED
from gpusmith.workloads.performance import WHAT

CHECK = "workloads.uniformity"
STEP = "Compare the GPU with its like: memory errors, clocks, PCIe link, cooling, the slot."

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class OfRun:
    """A node among those of its run.

    Attributes:
        host: the node.
        outcomes: of all nodes, by name.
    """

    host: NodeWanted
    outcomes: Mapping[str, NodeOutcome]


def _measured(outcome: NodeOutcome) -> Rows:
    finding = outcome.findings.get(MEASURED)
    rows = finding.evidence.get("devices", ()) if finding else ()
    return [row for row in rows if set(WHAT) <= row.keys()]


@check(
    CHECK,
    place=57,
    proves="no GPU of the node is slower than the others of its model in this run, whether or not a table knows the model",
    fails_when="a rate of workloads.performance is below its part of the median of GPUs of that name, at least four of them",
    do="compare the GPU with its like: memory errors, clocks, PCIe link, cooling, the slot",
    reads=Reads.FLEET,
)
def uniformity(of_run: OfRun) -> Finding:
    """Every rate against the median of its like."""
    host, own = of_run.host, _measured(of_run.outcomes[of_run.host.name])
    if not own:
        because = of_run.outcomes[host.name].findings[MEASURED]
        return not_made(CHECK, host, f"nothing was measured; see {MEASURED}.", because)
    return judge(host, own, [row for each in of_run.outcomes.values() for row in _measured(each)])


def judge(host: NodeWanted, own: Rows, everyone: Rows) -> Finding:
    """The finding on a node.

    Args:
        host: the node.
        own: rates of its GPUs.
        everyone: rates of all GPUs of the run, its own among them.

    Raises:
        NotApplicable: there are too few of them.
    """
    least = baselines.of_file().alike_least
    problems: list[Problem] = []
    medians: dict[str, dict[str, float]] = {}
    for model in sorted({str(row["name"]) for row in own}):
        like = [row for row in everyone if row["name"] == model]
        if len(like) >= least:
            median = {name: round(statistics.median(row[name] for row in like), 1) for name in WHAT}
            medians[model] = median
            slow = [_slow(host.name, row, median, len(like)) for row in own if row["name"] == model]
            problems += [problem for found in slow for problem in found]
    if not medians:
        raise NotApplicable(
            f"Node '{host.name}': not applicable: a median needs {least} GPUs of a model that were measured in one run."
        )
    return merge(CHECK, host.name, problems, host.simulated, {"medians": medians})


def _slow(node: str, row: Mapping[str, Any], median: Mapping[str, float], count: int) -> list[Problem]:
    found = []
    for name, part in baselines.of_file().alike.items():
        if row[name] < part * median[name]:
            what, unit = WHAT[name]
            cause = (
                f"Node '{node}': {row['uuid']}: {what} at {row[name]:g} {unit}, the median of {count} GPUs like it is"
                f" {median[name]:g}; {part:.0%} of that must be."
            )
            found.append(Problem(cause, STEP))
    return found
