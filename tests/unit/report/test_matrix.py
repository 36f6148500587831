"""Where something is wrong: groups of nodes by checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from gpusmith.checks.findings import Outcome
from gpusmith.checks.register import CLUSTER
from gpusmith.report.matrix import LEAST_NODES, MOST_ROWS, matrix
from gpusmith.report.results import Results
from tests.unit.report.samples import ERROR, FAILED, INFO, results

NODES = tuple(f"gpu-{n:02d}" for n in range(60))
RACKS = {
    name: [f"model h{n % 2}", f"label rack={n // 2}", f"group rack_{n // 2}"] for n, name in enumerate(NODES)
}


def site(traits: Mapping[str, Sequence[str]], bad: Sequence[str], nodes: Sequence[str] = NODES) -> Results:
    rows = [replace(FAILED, target=name) for name in bad]
    return replace(results(*rows, ERROR), info=replace(INFO, nodes=tuple(nodes)), traits=traits)


@pytest.mark.parametrize(
    ("kept", "kind", "rows"),
    [
        (3, "group", [("rack_1", 2, 2), ("rack_0", 2, 1)]),
        (2, "label rack", [("1", 2, 2), ("0", 2, 1)]),
        (1, "model", [("h0", 30, 2), ("h1", 30, 1)]),
    ],
)
def test_groups_of_the_inventory_then_labels_then_facts(
    kept: int, kind: str, rows: list[tuple[str, int, int]]
) -> None:
    found = matrix(site({name: row[:kept] for name, row in RACKS.items()}, ["gpu-00", "gpu-02", "gpu-03"]))
    assert found is not None
    assert found.kind == kind
    assert found.checks == ("nodes.ecc",), "a check of the whole cluster is of no group"
    assert [(row.name, row.nodes, row.failed["nodes.ecc"]) for row in found.rows] == rows


def test_the_worst_groups_are_shown_and_the_others_counted() -> None:
    found = matrix(site(RACKS, NODES[: 2 * MOST_ROWS + 5]))
    assert found is not None
    assert (len(found.rows), found.others, found.good) == (MOST_ROWS, 3, 7)


def test_nodes_without_a_group_are_one() -> None:
    found = matrix(site({name: ["group a"] for name in NODES[:9]}, ["gpu-00", "gpu-59"]))
    assert found is not None
    assert [(row.name, row.nodes) for row in found.rows] == [("a", 9), ("of none", 51)]


@pytest.mark.parametrize(
    "found",
    [
        site({name: ["model x"] for name in NODES}, ["gpu-00"]),
        site({}, ["gpu-00"]),
        site(RACKS, []),
        site(RACKS, [CLUSTER]),
        site(RACKS, ["gpu-00"], NODES[: LEAST_NODES - 1]),
        replace(site(RACKS, []), findings=(replace(FAILED, outcome=Outcome.PASSED),)),
    ],
    ids=["one group", "none", "nothing failed", "cluster", "few nodes", "passed"],
)
def test_no_matrix_where_there_is_nothing_to_tell(found: Results) -> None:
    assert matrix(found) is None
