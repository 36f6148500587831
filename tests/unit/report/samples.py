"""A run of two nodes, and findings of each outcome."""

from __future__ import annotations

from gpusmith.checks.findings import Finding, Outcome, Skip
from gpusmith.checks.register import CLUSTER, catalog
from gpusmith.report.coverage import GpuCoverage
from gpusmith.report.results import Results, RunInfo

INFO = RunInfo(
    "r", "2026-11-21T10:00:00Z", 1.5, "0", "inventory/lab", "", ("nodes",), True, ("gpu-1", "gpu-2")
)


def all_passed() -> tuple[Finding, ...]:
    return tuple(
        Finding(check.id, target, Outcome.PASSED, simulated=True)
        for check in catalog().values()
        for target in (INFO.nodes if check.per_node else (CLUSTER,))
    )


def results(*findings: Finding) -> Results:
    return Results(
        INFO,
        findings or all_passed(),
        {name: GpuCoverage(4, tuple(f"{name}-{n}" for n in range(4))) for name in INFO.nodes},
    )


FAILED = Finding(
    "nodes.ecc", "gpu-1", Outcome.FAILED, "Node 'gpu-1': <b>GPU 1</b> \x00 & co", {"n": 1}, "Reset it."
)
ERROR = Finding("cluster.api", CLUSTER, Outcome.ERROR, "no answer", {}, "Look.")
PASSED = Finding("nodes.ecc", "gpu-1", Outcome.PASSED)
SKIPPED = Finding("nodes.fabric", "gpu-1", Outcome.SKIPPED, "no switches")
BLOCKED = Finding("nodes.ecc", "gpu-2", Outcome.SKIPPED, "NVML cannot be asked", skip=Skip.BLOCKED)
REACHED = Finding("nodes.reachable", "gpu-1", Outcome.PASSED)
