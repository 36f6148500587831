"""Why nodes and GPUs were not tested: each reason once, with how many and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from gpusmith.report.coverage import GpuCoverage
from gpusmith.report.denominators import denominators
from tests.unit.report.samples import INFO, PASSED, results

NODES = tuple(f"gpu-{n:03d}" for n in range(100))


@pytest.mark.parametrize(
    ("coverage", "line", "reasons"),
    [
        (
            {name: GpuCoverage(8, (), {}, {"the workloads tier did not run": 8}) for name in NODES},
            "GPUs: 800 expected, 0 tested, 0 busy, 800 excluded",
            ["excluded: 800 on gpu-[000:099]: the workloads tier did not run"],
        ),
        # What differs by the node's own name is one reason.
        (
            {name: GpuCoverage(8, (), {}, {f"Node '{name}' has no GPU free.": 8}) for name in NODES[:9]},
            "GPUs: 72 expected, 0 tested, 0 busy, 72 excluded",
            ["excluded: 72 on gpu-[000:008]: Node 'NODE' has no GPU free."],
        ),
        (
            {
                **{name: GpuCoverage(8, (), {f"team/job-{name}": 8}) for name in NODES[:50]},
                NODES[50]: GpuCoverage(8, ("u",), {"other/one": 4}, {"cordoned": 3}),
            },
            "GPUs: 408 expected, 1 tested, 404 busy, 3 excluded",
            [
                "busy: 400 on gpu-[000:049], held by 50 pods of namespace team",
                "busy: 4 on gpu-050, held by other/one",
                "excluded: 3 on gpu-050: cordoned",
            ],
        ),
        # GPUs are counted, and not what pods get of them.
        (
            {
                NODES[0]: GpuCoverage(4, tuple("abcd")),
                NODES[1]: GpuCoverage(4, ("u",), {"pods with shares, of namespace 'team'": 3}, shares=4),
                NODES[2]: GpuCoverage(2, ("u", "v"), shares=8),
            },
            "GPUs: 10 expected, 7 tested, 3 busy, 0 excluded; 6 of them are handed out in 32 shares",
            ["busy: 3 on gpu-001, held by pods with shares, of namespace 'team'"],
        ),
        (
            {
                NODES[0]: GpuCoverage(4, tuple("abcd"), shares=2, part="MIG instance"),
                NODES[1]: GpuCoverage(2, ("u", "v"), shares=8),
            },
            (
                "GPUs: 6 expected, 6 tested, 0 busy, 0 excluded; 4 of them are handed out in 8 MIG instances; 2 of them are"
                " handed out in 16 shares"
            ),
            [],
        ),
    ],
    ids=["tier", "name", "busy", "shares", "instances"],
)
def test_each_reason_is_said_once(coverage: Mapping[str, GpuCoverage], line: str, reasons: list[str]) -> None:
    _nodes, gpus = denominators(replace(results(PASSED), coverage=coverage))
    assert str(gpus) == line
    assert [str(reason) for reason in gpus.reasons] == reasons


def test_nodes_that_were_left_out_are_counted_with_their_reason() -> None:
    found = replace(
        results(PASSED), info=replace(INFO, nodes=NODES), node_reasons=dict.fromkeys(NODES[1:], "cordoned")
    )
    nodes, _gpus = denominators(replace(found, coverage={}))
    assert str(nodes) == "nodes: 100 expected, 0 tested, 0 busy, 99 excluded"
    assert [str(reason) for reason in nodes.reasons] == ["excluded: 99 on gpu-[001:099]: cordoned"]
