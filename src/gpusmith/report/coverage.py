"""GPUs of a node by what became of them: the denominator that a report is honest about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class GpuCoverage:
    """GPUs of one node.

    Attributes:
        expected: by the inventory.
        tested: UUIDs that the CUDA workload ran on, whatever came of it.
        busy: holders 'namespace/pod' with their number of GPUs.
        excluded: reasons with their number of GPUs.
    """

    expected: int
    tested: tuple[str, ...] = ()
    busy: Mapping[str, int] = field(default_factory=dict)
    excluded: Mapping[str, int] = field(default_factory=dict)


def gpu_coverage(expected: int, tested: Sequence[str], busy: Mapping[str, int], reason: str) -> GpuCoverage:
    """The honest denominator: who is neither tested nor busy is excluded, for a reason.

    Args:
        expected: by the inventory.
        tested: UUIDs.
        busy: GPUs per holder.
        reason: why the rest was not tested.
    """
    rest = expected - len(tested) - sum(busy.values())
    return GpuCoverage(expected, tuple(tested), dict(busy), {reason: rest} if rest > 0 else {})
