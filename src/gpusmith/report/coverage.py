"""GPUs of a node by what became of them, and how much of all must be tested: the denominators that a report is honest about."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpusmith.errors import InputError
from gpusmith.wanted.layouts import WHOLE, Layout


@dataclass(frozen=True)
class GpuCoverage:
    """GPUs of one node.

    Attributes:
        expected: by the inventory.
        tested: UUIDs that the CUDA workload ran on, whatever came of it.
        busy: holders 'namespace/pod' with their number of GPUs.
        excluded: reasons with their number of GPUs.
        kept_back: those that are excluded are so because somebody uses the node or keeps it back, as by a cordon.
        shares: pods that one of them serves; 1 where they are handed out whole.
        part: what such a pod is given, in words.
    """

    expected: int
    tested: tuple[str, ...] = ()
    busy: Mapping[str, int] = field(default_factory=dict)
    excluded: Mapping[str, int] = field(default_factory=dict)
    kept_back: bool = False
    shares: int = 1
    part: str = "share"

    @property
    def wanted(self) -> int:
        """GPUs that nobody uses or keeps back."""
        excluded = sum(self.excluded.values()) if self.kept_back else 0
        return max(0, self.expected - sum(self.busy.values()) - excluded)


def gpu_coverage(
    expected: int,
    tested: Sequence[str],
    busy: Mapping[str, int],
    reason: str,
    kept_back: bool = False,
    layout: Layout = WHOLE,
) -> GpuCoverage:
    """The honest denominator: who is neither tested nor busy is excluded, for a reason.

    Args:
        expected: by the inventory.
        tested: UUIDs.
        busy: GPUs per holder.
        reason: why the rest was not tested.
        kept_back: as of GpuCoverage.
        layout: how they are handed out.
    """
    rest = expected - len(tested) - sum(busy.values())
    excluded = {reason: rest} if rest > 0 else {}
    kept_back = kept_back and rest > 0
    return GpuCoverage(expected, tuple(tested), dict(busy), excluded, kept_back, layout.shares, layout.part)


@dataclass(frozen=True)
class Demand:
    """How much must have been tested, and how much was.

    Attributes:
        rule: in words.
        tested: by kind, 'nodes' and, where workloads ran, 'GPUs'.
        wanted: the same.
    """

    rule: str
    tested: Mapping[str, int]
    wanted: Mapping[str, int]

    @property
    def missed(self) -> str:
        """What is too little, in words; empty if nothing is."""
        return " and ".join(
            f"{self.tested[kind]} of {wanted} {kind}"
            for kind, wanted in self.wanted.items()
            if self.tested[kind] < wanted
        )


ALL_FREE = "all that nobody uses or keeps back"


def demand(
    tested_nodes: Sequence[str],
    coverage: Mapping[str, GpuCoverage],
    nodes: Sequence[str],
    with_gpus: bool,
    percent: float | None,
) -> Demand:
    """What the run has to have tested.

    Args:
        tested_nodes: names.
        coverage: GPUs by node.
        nodes: all of the run.
        with_gpus: whether workloads were run.
        percent: of all nodes and all GPUs, used and kept back ones included; None for all that are neither.
    """
    rows = [coverage.get(name, GpuCoverage(0)) for name in nodes]
    expected = {"nodes": len(nodes), "GPUs": sum(row.expected for row in rows)}
    tested = {"nodes": len(tested_nodes), "GPUs": sum(len(row.tested) for row in rows)}
    if percent is None:
        # A node is out of the count if it was not tested, and all its GPUs are others' or kept back.
        free = [
            name
            for name, row in zip(nodes, rows, strict=True)
            if name in tested_nodes or row.wanted or not row.expected
        ]
        rule, wanted = ALL_FREE, {"nodes": len(free), "GPUs": sum(row.wanted for row in rows)}
    else:
        rule = f"{percent:g} % of all"
        wanted = {kind: math.ceil(count * percent / 100) for kind, count in expected.items()}
    kinds = ("nodes", "GPUs") if with_gpus else ("nodes",)
    return Demand(rule, {kind: tested[kind] for kind in kinds}, {kind: wanted[kind] for kind in kinds})


def percent_of(text: str | None) -> float | None:
    """The value of --min-coverage.

    Raises:
        InputError: it is no percentage.
    """
    if text is None:
        return None
    try:
        value = float(text.strip().removesuffix("%"))
    except ValueError:
        value = math.nan
    if not 0 < value <= 100:
        raise InputError(
            f"'{text}' is no percentage from 1 to 100.",
            "Give --min-coverage a number such as 90: that many percent of all nodes and GPUs must be tested.",
        )
    return value
