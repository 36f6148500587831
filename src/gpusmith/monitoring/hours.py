"""GPU hours by namespace, from the values that Prometheus keeps: how long pods had GPUs, and how busy those were."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpusmith.data import monitoring
from gpusmith.names import RUN_NAMESPACE

BUSY = "gpusmith:gpu_busy"
"""Record: 0 to 1 for each GPU, with the namespace of the pod that has it."""
SHARES = "gpusmith:namespace_shared_gpus"
"""Record: GPUs that shares of a namespace's pods make, by node."""
EXPECTED = "gpusmith:node_gpus_expected"
WINDOW_H = 12
"""Of one query. Prometheus refuses those that read more than 50 million samples: so many are enough for 34,000 GPUs."""
NOBODY = ""
COLUMNS = ("namespace", "gpu_hours", "busy_gpu_hours", "shares_gpu_hours")

Query = Callable[[str], Sequence[Mapping[str, Any]]]


@dataclass(frozen=True)
class Hours:
    """Of a number of days.

    Attributes:
        held: GPU hours in which pods of a namespace had GPUs to themselves.
        busy: the part of them in which the GPUs worked.
        shares: GPU hours that shares of GPUs make; the metrics do not tell for which pod a GPU in shares works.
        free: GPU hours in which nobody had the GPU.
        expected: GPU hours that the GPUs of today's inventory make.
    """

    held: Mapping[str, float]
    busy: Mapping[str, float]
    shares: Mapping[str, float]
    free: float
    expected: float

    @property
    def measured(self) -> float:
        """GPU hours of which there are values."""
        return self.free + sum(self.held.values()) + sum(self.shares.values())

    def lines(self, days: int) -> Iterator[str]:
        """For people, who held most first."""
        for name in self._order():
            held, shares = self.held.get(name, 0.0), self.shares.get(name, 0.0)
            said = [
                f"GPUs for {held:.1f} GPU hours, {self.busy.get(name, 0.0) / held:.0%} of them busy"
                if held
                else "",
                f"shares that make {shares:.1f} GPU hours" if shares else "",
            ]
            yield f"{name} held {', and '.join(filter(None, said))}"
        yield f"Nobody held GPUs for {self.free:.1f} GPU hours."
        whole = f"{self.expected:.1f} that the GPUs of today make in {24 * days} hours"
        yield f"Prometheus has values of {self.measured:.1f} GPU hours, of {whole}."

    def table(self) -> str:
        """For programs: CSV."""
        file = io.StringIO()
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(COLUMNS)
        columns = (self.held, self.busy, self.shares)
        rows.writerows((name, *(f"{each.get(name, 0.0):.2f}" for each in columns)) for name in self._order())
        return file.getvalue()

    def _order(self) -> list[str]:
        names = {**self.held, **self.shares}
        return sorted(names, key=lambda name: (-self.held.get(name, 0.0) - self.shares.get(name, 0.0), name))


def ask(query: Query, days: int, now: float) -> Hours:
    """Add up the last days.

    Args:
        query: asks Prometheus for the series of an instant.
        days: to look back.
        now: seconds since 1970.
    """
    step = interval_s() / 3600
    held: dict[str, float] = {}
    busy: dict[str, float] = {}
    shares: dict[str, float] = {}
    asked = (
        ("count_over_time", BUSY, held),
        ("sum_over_time", BUSY, busy),
        ("sum_over_time", SHARES, shares),
    )
    for ago in range(0, days * 24, WINDOW_H):
        for function, record, sums in asked:
            window = f"{record}[{WINDOW_H}h] @ {now:.0f} offset {ago}h"
            for row in query(f"sum by (namespace) ({function}({window}))"):
                name = _who(row["metric"].get("namespace", NOBODY))
                sums[name] = sums.get(name, 0.0) + float(row["value"][1]) * step
    expected = sum(float(row["value"][1]) for row in query(f"sum({EXPECTED})"))
    # A GPU in shares has no pod in the metrics.
    free = max(0.0, held.pop(NOBODY, 0.0) - sum(shares.values()))
    return Hours(held, busy, shares, free, expected * 24 * days)


def _who(namespace: str) -> str:
    """The namespace; all runs of the suite together, which have a new one each."""
    return RUN_NAMESPACE.rstrip("-") if namespace.startswith(RUN_NAMESPACE) else namespace


def interval_s() -> int:
    """Seconds between two values of the record, as its file says."""
    (found,) = (
        group["interval"]
        for groups in monitoring.groups().values()
        for group in groups
        if any(rule.get("record") == BUSY for rule in group["rules"])
    )
    return int(str(found).removesuffix("s"))
