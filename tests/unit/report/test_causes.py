"""Each cause once: what follows from another failure is counted there, and what its nodes have in common is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from gpusmith.checks.findings import Finding, Outcome
from gpusmith.checks.register import check
from gpusmith.report.causes import causes
from gpusmith.report.results import Results
from tests.unit.report.samples import FAILED, INFO, results

DRIVER, CDI, ECC = "nodes.driver-versions", "nodes.cdi", "nodes.ecc"
Found = list[tuple[str, list[str], list[str]]]


def failed(
    name: str, target: str, cause: str = "", outcome: Outcome = Outcome.FAILED, **evidence: str
) -> Finding:
    said = cause or f"{name} fails."
    return replace(FAILED, check=name, target=target, cause=said, outcome=outcome, evidence=evidence)


def seen(found: Results) -> Found:
    """Check, nodes and follow-ups of each cause."""
    return [
        (cause.checks[0], cause.targets, [f"{row.check} {row.target}" for row in cause.follow_ups])
        for cause in causes(found)
    ]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([(DRIVER, "a"), (CDI, "a")], [(DRIVER, ["a"], ["nodes.cdi a"])]),
        # Another node's failure explains nothing.
        ([(DRIVER, "a"), (CDI, "b")], [(DRIVER, ["a"], []), (CDI, ["b"], [])]),
        ([(CDI, "a")], [(CDI, ["a"], [])]),
        ([(DRIVER, "a"), (ECC, "a")], [(DRIVER, ["a"], []), (ECC, ["a"], [])]),
        # Over a check that is itself a follow-up.
        (
            [(DRIVER, "a"), ("nodes.nvml", "a"), ("nodes.gpu-count", "a"), ("cluster.gpu-capacity", "a")],
            [(DRIVER, ["a"], ["nodes.nvml a", "nodes.gpu-count a", "cluster.gpu-capacity a"])],
        ),
        # A node is not expected to run workloads without what is critical.
        ([("nodes.fabric", "a"), ("workloads.cuda", "a")], [("nodes.fabric", ["a"], ["workloads.cuda a"])]),
        ([(ECC, "a"), ("workloads.cuda", "a")], [(ECC, ["a"], []), ("workloads.cuda", ["a"], [])]),
        (
            [("cluster.node-ready", "a"), ("workloads.cuda", "a")],
            [("cluster.node-ready", ["a"], ["workloads.cuda a"])],
        ),
        # A check that the register does not have any more.
        ([("nodes.gone", "a")], [("nodes.gone", ["a"], [])]),
    ],
)
def test_what_another_failure_of_the_node_explains_is_shown_under_it(
    rows: Sequence[tuple[str, str]], expected: Found
) -> None:
    assert seen(results(*(failed(*row) for row in rows))) == expected


def test_a_workload_that_had_gpus_and_found_something_is_a_cause_of_its_own() -> None:
    """Seven of eight GPUs are offered: that is no reason for one of the seven to compute wrongly."""
    gone, wrong = (
        failed("cluster.gpu-capacity", "a"),
        failed("workloads.pytorch", "a", "wrong weights", log="x"),
    )
    assert [row.text for row in causes(results(gone, wrong))] == [
        "cluster.gpu-capacity fails.",
        "wrong weights",
    ]
    assert len(causes(results(gone, replace(wrong, evidence={})))) == 1


def test_an_error_is_a_follow_up_as_well_and_a_pass_explains_nothing() -> None:
    error = failed("workloads.cuda", "a", outcome=Outcome.ERROR)
    assert seen(results(failed(DRIVER, "a"), error)) == [(DRIVER, ["a"], ["workloads.cuda a"])]
    passed = failed(DRIVER, "a", outcome=Outcome.PASSED)
    assert seen(results(passed, failed(CDI, "a"))) == [(CDI, ["a"], [])]


def test_checks_that_explain_each_other_are_all_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpusmith.checks.register._CHECKS", {})
    for name, other in (("nodes.one", "nodes.two"), ("nodes.two", "nodes.one")):
        check(name, place=1, proves="p", fails_when="f", do="d", explained_by=(other,))(lambda _: [])
    try:
        found = seen(results(failed("nodes.one", "a"), failed("nodes.two", "a")))
    finally:
        monkeypatch.undo()
        check.__globals__["_in_order"].cache_clear()
    assert found == [("nodes.one", ["a"], []), ("nodes.two", ["a"], [])]


NODES = tuple(f"gpu-{n:02d}" for n in range(40))


@pytest.mark.parametrize(
    ("traits", "said"),
    [
        ({name: ["model h100", "group r_1"] for name in NODES[:8]}, "model h100, group r_1; no other node has that"),
        # Two others are a fourth of eight; three are too many.
        ({name: ["group rack_1"] for name in NODES[:10]}, "group rack_1; 2 other nodes have that"),
        ({name: ["group rack_1"] for name in NODES[:9]}, "group rack_1; one other node has that"),
        ({name: ["group rack_1"] for name in NODES[:11]}, ""),
        ({name: ["group rack_1"] for name in NODES[:7]}, ""),
        ({name: ["model h100"] for name in NODES}, ""),
        ({}, ""),
    ],
)  # fmt: skip
def test_what_nodes_have_in_common_that_few_others_have(
    traits: Mapping[str, Sequence[str]], said: str
) -> None:
    found = results(*(failed(ECC, name) for name in NODES[:8]))
    (cause,) = causes(replace(found, info=replace(INFO, nodes=NODES), traits=traits))
    assert cause.common == said


def test_one_node_and_all_nodes_have_nothing_in_common() -> None:
    traits = dict.fromkeys(NODES[:2], ("group rack_1",))
    for count in (1, 2):
        found = results(*(failed(ECC, name) for name in NODES[:count]))
        (cause,) = causes(replace(found, info=replace(INFO, nodes=NODES[:2]), traits=traits))
        assert cause.common == ""
