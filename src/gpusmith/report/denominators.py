"""How much there was to test, how much was tested, and why not the rest: each reason once, with its nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from gpusmith.report.causes import named_targets, said_alike
from gpusmith.report.coverage import GpuCoverage
from gpusmith.report.results import Results


@dataclass(frozen=True)
class Reason:
    """Why some were not tested.

    Attributes:
        word: 'busy' or 'excluded'.
        count: how many.
        targets: on which nodes.
        text: who holds them, or what keeps them out.
    """

    word: str
    count: int
    targets: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        held = ", held by " if self.word == "busy" else ": "
        return f"{self.word}: {self.count} on {named_targets(self.targets)}{held}{self.text}"


@dataclass(frozen=True)
class Denominator:
    """Of nodes or GPUs.

    Attributes:
        kind: 'nodes' or 'GPUs'.
        expected: by the inventory.
        tested: of these.
        busy: number of those that others use.
        reasons: why some were not tested.
        shared: which of them are handed out in shares or MIG instances, in words; empty if none is.
    """

    kind: str
    expected: int
    tested: int
    busy: int
    excluded: int
    reasons: tuple[Reason, ...]
    shared: str = ""

    def __str__(self) -> str:
        counted = (
            f"{self.expected} expected, {self.tested} tested, {self.busy} busy, {self.excluded} excluded"
        )
        return f"{self.kind}: {counted}{self.shared and f'; {self.shared}'}"


def denominators(results: Results) -> tuple[Denominator, Denominator]:
    """Of nodes and of GPUs."""
    rows = results.coverage
    used = [(name, count, holder) for name, row in rows.items() for holder, count in row.busy.items()]
    out = [(name, count, reason) for name, row in rows.items() for reason, count in row.excluded.items()]
    busy_nodes = [name for name, row in rows.items() if row.busy and not row.tested]
    nodes_out = [(name, 1, reason) for name, reason in results.node_reasons.items()]
    nodes = Denominator(
        "nodes",
        len(results.info.nodes),
        len(results.tested_nodes),
        len(busy_nodes),
        len(nodes_out),
        tuple(_excluded(nodes_out)),
    )
    gpus = Denominator(
        "GPUs",
        sum(row.expected for row in rows.values()),
        sum(len(row.tested) for row in rows.values()),
        sum(count for _, count, _ in used),
        sum(count for _, count, _ in out),
        (*_busy(used), *_excluded(out)),
        _shared(rows.values()),
    )
    return nodes, gpus


def _shared(rows: Iterable[GpuCoverage]) -> str:
    gpus, parts = Counter[str](), Counter[str]()
    for row in rows:
        if row.shares > 1:
            gpus[row.part] += row.expected
            parts[row.part] += row.expected * row.shares
    return "; ".join(
        f"{count} of them are handed out in {parts[part]} {part}s" for part, count in gpus.items()
    )


def _excluded(rows: Iterable[tuple[str, int, str]]) -> list[Reason]:
    """Node, number and reason, by reason."""
    found = list(rows)
    return [
        Reason("excluded", sum(found[place][1] for place in places), tuple(targets), text)
        for text, targets, places in said_alike([(name, text) for name, _, text in found])
    ]


def _busy(rows: Iterable[tuple[str, int, str]]) -> list[Reason]:
    """Node, number and pod, by the pods' namespace: of thousands of pods nobody reads the names."""
    spaces: dict[str, list[tuple[str, int, str]]] = {}
    for row in rows:
        spaces.setdefault(row[2].partition("/")[0], []).append(row)
    found = []
    for space, held in spaces.items():
        pods = list(dict.fromkeys(pod for _, _, pod in held))
        who = pods[0] if len(pods) == 1 else f"{len(pods)} pods of namespace {space}"
        targets = tuple(dict.fromkeys(name for name, _, _ in held))
        found.append(Reason("busy", sum(count for _, count, _ in held), targets, who))
    return found
