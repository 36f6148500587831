"""Groups of nodes by checks, with how many nodes of each failed: where in the site something is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from gpusmith.checks.findings import Outcome
from gpusmith.checks.register import CLUSTER
from gpusmith.report.results import Results

LEAST_NODES = 7
"""Fewer are their own groups."""
MOST_ROWS = 20
NO_GROUP = "of none"


@dataclass(frozen=True)
class Row:
    """A group.

    Attributes:
        name: of the group.
        nodes: how many it has.
        failed: how many of them failed, by check.
    """

    name: str
    nodes: int
    failed: Mapping[str, int]


@dataclass(frozen=True)
class Matrix:
    """The groups in which something failed, the worst first.

    Attributes:
        kind: what they are groups by.
        checks: that failed anywhere, in the order of the findings.
        rows: the groups.
        others: how many more groups have failures.
        good: how many groups have none.
    """

    kind: str
    checks: tuple[str, ...]
    rows: tuple[Row, ...]
    others: int
    good: int


def matrix(results: Results) -> Matrix | None:
    """By groups of the inventory, else by a label or a fact that tells nodes apart; None if there is nothing to tell."""
    bad = [
        row
        for row in results.findings
        if row.outcome in (Outcome.FAILED, Outcome.ERROR) and row.target != CLUSTER
    ]
    nodes = results.info.nodes
    if not bad or len(nodes) < LEAST_NODES:
        return None
    kinds: dict[str, dict[str, list[str]]] = {}
    for name in nodes:
        for trait in results.traits.get(name, ()):
            kind, value = _split(trait)
            kinds.setdefault(kind, {}).setdefault(value, []).append(name)
    order = sorted(kinds, key=lambda kind: (kind != "group", not kind.startswith("label ")))
    for kind in order:
        groups = kinds[kind]
        rest = set(nodes).difference(*groups.values())
        if rest:
            groups[NO_GROUP] = [name for name in nodes if name in rest]
        if len(groups) > 1:
            break
    else:
        return None
    counted: dict[str, Counter[str]] = {}
    for row in bad:
        counted.setdefault(row.target, Counter())[row.check] += 1
    rows = []
    for value, names in groups.items():
        failed: Counter[str] = Counter()
        for name in names:
            failed.update(counted.get(name, {}))
        if failed:
            rows.append(Row(value, len(names), failed))
    rows.sort(key=lambda row: -sum(row.failed.values()))
    checks = tuple(dict.fromkeys(row.check for row in bad))
    return Matrix(kind, checks, tuple(rows[:MOST_ROWS]), len(rows[MOST_ROWS:]), len(groups) - len(rows))


def _split(trait: str) -> tuple[str, str]:
    """Kind and value of a trait: 'group rack_1', 'label zone=a'."""
    kind, _, value = trait.partition("=" if trait.startswith("label ") else " ")
    return kind, value
