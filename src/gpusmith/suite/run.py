"""A run: what it is asked, what it has found so far, and how it ended."""

from __future__ import annotations

import datetime as dt
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from gpusmith.advice import Started
from gpusmith.checks.findings import Finding, Outcome, Skip
from gpusmith.checks.register import CLUSTER, TIERS, catalog, of_tier
from gpusmith.data.monitoring import NONE as NO_PROMETHEUS
from gpusmith.errors import InputError, ToolError
from gpusmith.inventory.places import path
from gpusmith.names import MONITORING
from gpusmith.node.connections import Node
from gpusmith.owner import process
from gpusmith.plain import Shared
from gpusmith.report.results import EVERY_NODE, NODES_BY_NAME, ExitCode, Results, RunInfo, in_catalog_order
from gpusmith.suite import summary
from gpusmith.suite.evaluation import evaluate
from gpusmith.suite.evidence import Evidence
from gpusmith.suite.maintenance import NONE, Maintenance
from gpusmith.suite.replay import Recorded, Replayed
from gpusmith.suite.sources import Say, Sources
from gpusmith.wanted.inventory import Inventory
from gpusmith.workloads.jobs import Run


def tiers_of(text: str | None, possible: Sequence[str] = TIERS) -> tuple[str, ...]:
    """The value of --tier.

    Args:
        text: as it is given; None for all.
        possible: those that can be had.

    Raises:
        InputError: a tier that there is not.
    """
    if text is None:
        return tuple(possible)
    asked = [part.strip() for part in text.split(",") if part.strip()]
    wrong = [part for part in asked if part not in possible]
    if wrong and wrong[0] in TIERS:
        needs = {"workloads": "--namespace", MONITORING: "an inventory, which says what watches the nodes"}
        need = needs.get(wrong[0], "--facts privileged, or an inventory, since it asks the machines")
        raise InputError(
            f"Tier '{wrong[0]}' needs {need}.", f"With the other options, tiers are: {', '.join(possible)}."
        )
    if wrong or not asked:
        raise InputError(
            f"There is no tier '{wrong[0] if wrong else text}'.", f"Tiers are: {', '.join(TIERS)}."
        )
    return tuple(tier for tier in TIERS if tier in asked)


def usual(tiers: tuple[str, ...], inventory: Inventory, maintenance: Maintenance) -> tuple[str, ...]:
    """Those that run unless --tier says otherwise: monitoring where Prometheus is, and not while an upgrade stops exporters."""
    left_out = inventory.monitoring.prometheus == NO_PROMETHEUS or maintenance.id
    return tuple(tier for tier in tiers if tier != MONITORING or not left_out)


def started(inventory: Inventory, folder: Path | None) -> Started:
    """What commands in findings have to name; who follows advice is an administrator, and the suite need be none."""
    known = "," in inventory.source or Path(inventory.source).exists()
    host = next(iter(inventory.hosts.values()))
    kubeconfig = host.kubeconfig or host.suite_kubeconfig
    return Started(
        inventory.source if known else None,
        str(path(kubeconfig).absolute()) if kubeconfig else "",
        folder,
        inventory.chosen.context if inventory.chosen else "",
    )


class Suite:
    """The run.

    Args:
        inventory: its nodes.
        programs: folder of what runs inside pods.
        tiers: that were asked for.
        say: told about long steps.
        nodes: replaced in tests; by default the inventory's connections.
        working_folder: where the suite was started.
        min_coverage: percentage of nodes and GPUs that must be tested; None for all that nobody uses or keeps back.
        maintenance: the upgrade that nodes are tested for.
        evidence: keeps what the run is told.
        recorded: a run that is judged again; nobody is asked then.
        gpu_budget: how many GPUs may be taken at the same time; 0 for no limit.
    """

    def __init__(
        self,
        inventory: Inventory,
        programs: Path,
        tiers: tuple[str, ...] = TIERS,
        say: Say = lambda _: None,
        nodes: Mapping[str, Node] | None = None,
        working_folder: Path | None = None,
        min_coverage: float | None = None,
        maintenance: Maintenance = NONE,
        evidence: Evidence | None = None,
        recorded: Recorded | None = None,
        gpu_budget: int = 0,
    ) -> None:
        evidence = evidence or Evidence()
        self._recorded = recorded
        self.min_coverage, self.maintenance = min_coverage, maintenance
        self.inventory, self.tiers, self.say = inventory, tiers, say
        self._advice = recorded.advice if recorded else started(inventory, working_folder)
        wanted = [host.validation for host in inventory.hosts.values()]
        self.run = Run(
            f"{dt.datetime.now(dt.UTC):%m%d%H%M%S}-{secrets.token_hex(3)}",
            str(process()),
            {key: value for row in wanted for key, value in row.labels.items()},
            {key: value for row in wanted for key, value in row.annotations.items()},
            tuple(
                dict.fromkeys(name for host in inventory.hosts.values() for name in host.image_pull_secrets)
            ),
            next(iter(inventory.hosts.values())).operands.namespace,
            evidence.pod,
            inventory.within,
            gpu_budget,
        )
        make = partial(Replayed, recorded) if recorded else Sources
        self.sources = make(
            inventory, programs, self.run, say, nodes, working_folder or Path.cwd(), maintenance.id, evidence
        )
        self.findings: list[Finding] = []
        self._shared = Shared()
        self._started = dt.datetime.now(dt.UTC)
        self._begin = time.monotonic()
        self._ended: ExitCode | None = None
        evidence.begin(self._about(), inventory.hosts.values())

    def _about(self) -> dict[str, Any]:
        """What a replay has to know beside the nodes."""
        info, advice = self.results().info, self._advice
        return {
            "id": info.id,
            "started": info.started,
            "version": info.version,
            "options": {
                "inventory": info.inventory,
                "limit": info.limit,
                "tiers": list(info.tiers),
                "min_coverage": self.min_coverage,
                "maintenance_id": info.maintenance_id,
                "driver_version": info.driver_version,
                "gpu_layout": info.gpu_layout,
            },
            "own_checks": list(self.inventory.folders),
            "checks": list(catalog()),
            "groups": {group: sorted(there) for group, there in self.inventory.groups.items()},
            "advice": {
                "inventory": advice.inventory,
                "kubeconfig": advice.kubeconfig,
                "folder": str(advice.folder or ""),
            },
        }

    @property
    def asks(self) -> bool:
        """Whether nodes and cluster are asked; a replay asks nobody."""
        return self._recorded is None

    def plan(self, tier: str) -> list[tuple[str, str]]:
        """Every check of a tier with each of its targets, in order; with many nodes, one test of a check is for all of them."""
        nodes = tuple(self.inventory.hosts) if len(self.inventory.hosts) <= NODES_BY_NAME else (EVERY_NODE,)
        return [
            (row.id, target) for row in of_tier(tier) for target in (nodes if row.per_node else (CLUSTER,))
        ]

    def targets(self, target: str) -> Sequence[str]:
        """What a test of plan() is about: a host, 'cluster', or all hosts."""
        return tuple(self.inventory.hosts) if target == EVERY_NODE else (target,)

    def evaluate(self, check: str, target: str) -> Finding:
        """The finding of one check on one target, recorded.

        Args:
            check: id of a registered check.
            target: a host's name, or 'cluster'.
        """
        finding = evaluate(catalog()[check], target, self.sources)
        cause, step = self._advice.said(finding.cause), self._advice.said(finding.next_step)
        finding = replace(finding, cause=cause, next_step=step, evidence=self._shared(finding.evidence))
        self.findings.append(finding)
        return finding

    def broke(self, check: str, target: str, cause: str) -> None:
        """Record that a check itself broke."""
        self.findings.append(
            Finding(
                check,
                target,
                Outcome.ERROR,
                cause,
                next_step="Report this as a fault of gpusmith.",
                simulated=self.sources.simulated(target),
            )
        )

    def end(self, code: ExitCode, not_made: Iterable[tuple[str, str]] = ()) -> None:
        """The run ends otherwise than by its checks; the reports must say so, and name what was not checked.

        Args:
            code: how.
            not_made: checks with their targets that were still to be made.
        """
        self._ended = code
        cause = "The run ended before this check was made."
        for check, target in not_made:
            self.findings.append(
                Finding(
                    check,
                    target,
                    Outcome.SKIPPED,
                    cause,
                    simulated=self.sources.simulated(target),
                    skip=Skip.BLOCKED,
                )
            )

    def results(self) -> Results:
        """All that was found so far; asks nobody."""
        info = RunInfo(
            id=self.run.id,
            started=self._started.isoformat(timespec="seconds").replace("+00:00", "Z"),
            duration_s=time.monotonic() - self._begin,
            version=_version(),
            inventory=self.inventory.source,
            limit=self.inventory.limit,
            tiers=self.tiers,
            simulated=self.inventory.simulated,
            nodes=tuple(self.inventory.hosts),
            maintenance_id=self.maintenance.id,
            driver_version=self.maintenance.driver_version,
            gpu_layout=self.maintenance.layout,
            user_lands=summary.user_lands(self.sources),
            replay_of=self._recorded.id if self._recorded else "",
            not_replayed=tuple(name for name in self._recorded.checks if name not in catalog())
            if self._recorded
            else (),
        )
        return Results(
            info,
            in_catalog_order(self.findings),
            summary.coverage(self.sources),
            summary.node_reasons(self.sources),
            summary.facts(self.sources),
            self._ended,
            self.min_coverage,
            summary.traits(self.sources),
        )


def _version() -> str:
    try:
        return metadata.version("gpusmith")
    except metadata.PackageNotFoundError as error:
        raise ToolError(
            "Package 'gpusmith' is not installed in this environment.", "Run 'make setup'."
        ) from error
