"""The result of a run: findings, coverage, verdict and exit code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from gpusmith.checks.findings import Finding, Outcome, Skip
from gpusmith.checks.register import CLUSTER, catalog
from gpusmith.names import MONITORING
from gpusmith.report.coverage import Demand, GpuCoverage, demand

NODES_BY_NAME = 64
"""So many nodes have a test, a row and a case of their own for each check: a test costs pytest 2 ms and 7 KB."""
EVERY_NODE = "every node"
"""Target of a test, and of a case, of all nodes."""


class ExitCode(IntEnum):
    """How ``pytest validation`` ends; documented in docs/validation.md."""

    PASSED = 0
    FAILED = 1
    INTERRUPTED = 2
    BROKEN = 3
    BAD_INPUT = 4


@dataclass(frozen=True)
class RunInfo:
    """What a run was about.

    Attributes:
        id: of the run.
        started: ISO 8601, UTC.
        duration_s: seconds.
        version: of gpusmith.
        inventory: as it was named.
        limit: pattern, may be empty.
        tiers: that were asked for.
        simulated: any node is simulated.
        nodes: names of all GPU nodes of the run.
        maintenance_id: of the upgrade or layout change whose cordoned nodes are tested all the same; empty if there is none.
        driver_version: that those nodes must have, or all if there is no such ID; empty if the inventory's counts.
        gpu_layout: that those nodes must have, likewise.
        user_lands: what the user land is, by node, where it is not the distribution's: nothing is proved about that one there.
        replay_of: ID of the run whose evidence was judged again; empty if nodes and cluster were asked.
        not_replayed: checks that the run had and a replay does not have, such as the site's own.
    """

    id: str
    started: str
    duration_s: float
    version: str
    inventory: str
    limit: str
    tiers: tuple[str, ...]
    simulated: bool
    nodes: tuple[str, ...]
    maintenance_id: str = ""
    driver_version: str = ""
    gpu_layout: str = ""
    user_lands: Mapping[str, str] = field(default_factory=dict)
    replay_of: str = ""
    not_replayed: tuple[str, ...] = ()

    @property
    def given(self) -> str:
        """What nodes had to have whatever the inventory says, in words; empty if nothing."""
        driver = f"driver {self.driver_version}" if self.driver_version else ""
        layout = f"GPU layout '{self.gpu_layout}'" if self.gpu_layout else ""
        return " and ".join(filter(None, (driver, layout)))

    @property
    def reservations(self) -> tuple[str, ...]:
        """What a pass is not a pass on, in a few words each."""
        without = f" without {', '.join(self.not_replayed)}" if self.not_replayed else ""
        found = [f"replay of run {self.replay_of}{without}"] if self.replay_of else []
        found += ["simulated GPUs"] if self.simulated else []
        return (*found, *(f"{', '.join(names)}: {text}" for text, names in self.by_user_land.items()))

    @property
    def by_user_land(self) -> dict[str, list[str]]:
        """Nodes by the user land that they have in common."""
        found: dict[str, list[str]] = {}
        for name, text in self.user_lands.items():
            found.setdefault(text, []).append(name)
        return found


@dataclass(frozen=True)
class Results:
    """Everything that a run found.

    Attributes:
        info: the run.
        findings: in the order of the checks.
        coverage: GPUs per node.
        node_reasons: why a node was not tested at all, per node.
        facts: per node what a stamp depends on.
        traits: per node what others may have as well: GPU model, driver, kernel, groups of the inventory, labels.
        min_coverage: percentage of all nodes and GPUs that must be tested; None for all that nobody uses or keeps back.
        ended: how the run ended, where that is worse than what its checks say: interrupted, broken, nothing selected.
    """

    info: RunInfo
    findings: tuple[Finding, ...]
    coverage: Mapping[str, GpuCoverage]
    node_reasons: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    ended: ExitCode | None = None
    min_coverage: float | None = None
    traits: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def count(self, outcome: Outcome) -> int:
        """Findings of an outcome."""
        return sum(finding.outcome is outcome for finding in self.findings)

    @property
    def tested_nodes(self) -> tuple[str, ...]:
        """Nodes on which at least one check beyond reaching them came to a verdict, and none is left out by name."""
        seen = {
            finding.target
            for finding in self.findings
            if finding.outcome in (Outcome.PASSED, Outcome.FAILED) and finding.check != "nodes.reachable"
        }
        return tuple(name for name in self.info.nodes if name in seen and name not in self.node_reasons)

    @property
    def demand(self) -> Demand:
        """How much had to be tested, and how much was."""
        gpus = any(finding.check == "workloads.cuda" for finding in self.findings)
        # A selection of checks may leave nodes out by name.
        asked = {finding.target for finding in self.findings}
        nodes = [name for name in self.info.nodes if name in asked]
        return demand(self.tested_nodes, self.coverage, nodes, gpus, self.min_coverage)

    @property
    def complete(self) -> bool:
        """Whether the run came to its end, with a finding of every check that stamps depend on for each of its targets."""
        # A replay proves nothing of what the nodes are now.
        if self.ended is not None or self.info.replay_of:
            return False
        there = {(finding.check, finding.target) for finding in self.findings}
        wanted = {
            (check.id, target)
            for check in catalog().values()
            if check.tier != MONITORING
            for target in (self.info.nodes if check.per_node else (CLUSTER,))
        }
        return wanted <= there

    @property
    def blocked(self) -> tuple[Finding, ...]:
        """Checks that could not be asked: with a selection, the one that says why may not be among those that ran."""
        return tuple(row for row in self.findings if row.skip is Skip.BLOCKED)

    @property
    def exit_code(self) -> ExitCode:
        """A failed check outweighs a broken tool; nothing tested is never a pass, nor is what could not be asked."""
        if self.ended is not None:
            return self.ended
        if self.count(Outcome.FAILED):
            return ExitCode.FAILED
        if self.count(Outcome.ERROR):
            return ExitCode.BROKEN
        if self.blocked:
            return ExitCode.FAILED
        return ExitCode.PASSED if self.tested_nodes and not self.demand.missed else ExitCode.FAILED

    @property
    def verdict(self) -> str:
        """One word and why."""
        code = self.exit_code
        if code is ExitCode.PASSED:
            reservations = "; ".join(self.info.reservations)
            return f"PASSED ({reservations})" if reservations else "PASSED"
        if code is ExitCode.INTERRUPTED:
            return "INTERRUPTED: what was not checked is not proved"
        if code is ExitCode.BROKEN:
            return "ERROR: the suite could not do its work"
        if code is ExitCode.BAD_INPUT:
            return "ERROR: no check was selected"
        if self.count(Outcome.FAILED):
            return "FAILED"
        if self.blocked:
            return f"FAILED: {self.blocked[0].cause}"
        if not self.tested_nodes:
            return "FAILED: no GPU node was tested"
        return f"FAILED: only {self.demand.missed} were tested, {self.demand.rule} must be"


def in_catalog_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sorted as the catalog is, then by target."""
    order = {name: place for place, name in enumerate(catalog())}
    return tuple(sorted(findings, key=lambda row: (order.get(row.check, len(order)), row.check, row.target)))
