"""One run of the validation suite: asks each source once, answers each check from it, collects what was found."""

from __future__ import annotations

import datetime as dt
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

from gpusmith import leftovers, models, snapshot
from gpusmith.catalog import CATALOG, CLUSTER, TIERS
from gpusmith.checks import cluster as cluster_checks
from gpusmith.checks import devices, health
from gpusmith.checks import nodes as node_checks
from gpusmith.errors import GpusmithError, InputError, ToolError
from gpusmith.findings import CannotAsk, Finding, NotAsked, Outcome, Skip, merge
from gpusmith.inventory.host import Host, Inventory
from gpusmith.kube import Cluster
from gpusmith.node.connections import Node, Probed, connect, probe_all
from gpusmith.node.facts import NodeFacts
from gpusmith.probe.record import Record
from gpusmith.problems import Problem
from gpusmith.report.coverage import GpuCoverage, gpu_coverage
from gpusmith.report.results import ExitCode, Results, RunInfo, in_catalog_order
from gpusmith.snapshot import NodeView, Snapshot
from gpusmith.workloads import namespace, runner
from gpusmith.workloads.jobs import Run
from gpusmith.workloads.outcome import NodeOutcome
from gpusmith.workloads.targets import Target

Say = Callable[[str], None]


@dataclass(frozen=True)
class ClusterState:
    """What the cluster tier reads."""

    cluster: Cluster
    snapshot: Snapshot
    leftovers: Finding


def tiers_of(text: str | None) -> tuple[str, ...]:
    """The value of --tier.

    Raises:
        InputError: a tier that there is not.
    """
    if text is None:
        return TIERS
    asked = [part.strip() for part in text.split(",") if part.strip()]
    wrong = [part for part in asked if part not in TIERS]
    if wrong or not asked:
        raise InputError(
            f"There is no tier '{wrong[0] if wrong else text}'.", f"Tiers are: {', '.join(TIERS)}."
        )
    return tuple(tier for tier in TIERS if tier in asked)


class Suite:
    """The run.

    Args:
        inventory: its nodes.
        programs: folder of what runs inside pods.
        tiers: that were asked for.
        say: told about long steps.
        nodes: replaced in tests; by default the inventory's connections.
        working_folder: where the suite was started.
    """

    def __init__(
        self,
        inventory: Inventory,
        programs: Path,
        tiers: tuple[str, ...] = TIERS,
        say: Say = lambda _: None,
        nodes: Mapping[str, Node] | None = None,
        working_folder: Path | None = None,
    ) -> None:
        self.inventory, self.programs, self.tiers, self.say = inventory, programs, tiers, say
        self.run = Run(
            f"{dt.datetime.now(dt.UTC):%m%d%H%M%S}-{secrets.token_hex(3)}",
            leftovers.own_owner(),
        )
        self.findings: list[Finding] = []
        self._nodes = nodes
        self._folder = working_folder or Path.cwd()
        self._started = dt.datetime.now(dt.UTC)
        self._begin = time.monotonic()
        self._cluster_trouble: GpusmithError | None = None
        self._workload_trouble: GpusmithError | None = None
        self._outcomes: dict[str, NodeOutcome] = {}
        self._workloads_began = False
        self._ended: ExitCode | None = None

    # --- sources, each asked once ------------------------------------------------------------------------

    @cached_property
    def probed(self) -> dict[str, Probed]:
        """Every node's record."""
        nodes = self._nodes if self._nodes is not None else connect(self.inventory, self._folder)
        self.say(f"probing {len(nodes)} GPU nodes")
        found = probe_all(nodes)
        slowest = max(found.values(), key=lambda row: row.duration_s)
        self.say(
            f"{sum(row.record is not None for row in found.values())} of {len(found)} answered, within {slowest.duration_s:.1f} s"
        )
        return found

    def record(self, host: str) -> Record | None:
        """A node's record; None if it did not answer."""
        return self.probed[host].record

    @cached_property
    def models(self) -> Mapping[str, models.Model]:
        """data/gpus.yml."""
        return models.load()

    def node_name(self, host: str) -> str:
        """Name of a host's Node object."""
        record = self.record(host)
        return (record.kubernetes.node_name if record else None) or host

    @cached_property
    def cluster_state(self) -> ClusterState:
        """Connection, what earlier runs left, and the lists.

        Raises:
            GpusmithError: the cluster cannot be asked.
        """
        self.say("asking the cluster")
        cluster = Cluster(self.inventory.kubeconfig)
        left = self._remove_leftovers(cluster)
        wanted = {
            self.node_name(name): host.operands_namespace for name, host in self.inventory.hosts.items()
        }
        return ClusterState(cluster, snapshot.take_settled(cluster, wanted, self.say), left)

    def _remove_leftovers(self, cluster: Cluster) -> Finding:
        found = leftovers.find(cluster)
        evidence = {"removed": list(found.dead), "other_runs": list(found.alive)}
        stuck = {}
        for name in found.dead:
            self.say(f"removing namespace '{name}', which an earlier run left")
            why = namespace.remove(cluster, name)
            if why:
                stuck[name] = why
        problems = [
            Problem(
                f"Namespace '{name}' of an earlier run cannot be removed: {why}.",
                f"Look at: kubectl get namespace {name} -o yaml",
            )
            for name, why in stuck.items()
        ]
        return merge("cluster.leftovers", CLUSTER, problems, False, evidence)

    def view(self, host: str) -> NodeView | None:
        """A host's Node object."""
        return self.cluster_state.snapshot.nodes.get(self.node_name(host))

    @cached_property
    def workload_runs(self) -> tuple[dict[str, NodeOutcome], Finding]:
        """Run all workloads on all nodes.

        Raises:
            GpusmithError: nothing could be started.
        """
        state = self.cluster_state
        targets = []
        for name, host in self.inventory.hosts.items():
            record = self.record(name)
            uuids = frozenset(gpu.uuid for gpu in record.nvml.gpus if gpu.uuid) if record else None
            targets.append(Target(host, self.view(name), uuids, frozenset(state.snapshot.runtime_classes)))
        self.say(f"running workloads in namespace '{self.run.namespace}'")
        self._workloads_began = True
        outcomes, cleanup = runner.run_all(state.cluster, self.run, self.programs, targets, self.say)
        self._outcomes = outcomes
        return outcomes, cleanup

    # --- answers -----------------------------------------------------------------------------------------

    def evaluate(self, check: str, target: str) -> Finding:
        """The finding of one check on one target, recorded.

        Args:
            check: id from the catalog.
            target: a host's name, or 'cluster'.
        """
        begin = time.monotonic()
        tier = CATALOG[check].tier
        simulated = self._simulated(target)
        try:
            if tier == "nodes":
                finding = self._node_finding(check, self.inventory.hosts[target])
            elif tier == "cluster":
                finding = self._cluster_finding(check, target)
            else:
                finding = self._workload_finding(check, target)
        except NotAsked as why:
            finding = Finding(check, target, Outcome.SKIPPED, str(why), skip=why.skip)
        except GpusmithError as error:
            finding = Finding(check, target, Outcome.ERROR, error.message, next_step=error.hint)
        spent = time.monotonic() - begin
        finding = replace(
            finding, simulated=finding.simulated or simulated, duration_s=finding.duration_s or spent
        )
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
                simulated=self._simulated(target),
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
                    simulated=self._simulated(target),
                    skip=Skip.BLOCKED,
                )
            )

    def _simulated(self, target: str) -> bool:
        host = self.inventory.hosts.get(target)
        return host.simulated if host else self.inventory.simulated

    def _node_finding(self, check: str, host: Host) -> Finding:
        probed = self.probed[host.name]
        if check == "nodes.reachable":
            if probed.record is None:
                return Finding(
                    check,
                    host.name,
                    Outcome.FAILED,
                    probed.problem,
                    {},
                    probed.hint,
                    duration_s=probed.duration_s,
                )
            evidence = {
                "boot_id": probed.record.host.boot_id,
                "kernel": probed.record.host.kernel,
                "holes": list(probed.record.errors),
            }
            return Finding(check, host.name, Outcome.PASSED, evidence=evidence, duration_s=probed.duration_s)
        if probed.record is None:
            raise CannotAsk(f"There is no record of node '{host.name}'; see nodes.reachable.")
        fleet = {
            name: row.record
            for name, row in self.probed.items()
            if row.record is not None and self.inventory.hosts[name].gpu_model == host.gpu_model
        }
        facts = NodeFacts(host, probed.record, self.models.get(host.gpu_model), fleet, self.inventory.hosts)
        return merge(
            check,
            host.name,
            node_checks.CHECKS[check](facts),
            host.simulated,
            _node_evidence(check, probed.record, host),
        )

    def _cluster(self) -> ClusterState:
        """The cluster's state; its trouble is an error once, then a reason to leave checks out."""
        if self._cluster_trouble is not None:
            raise CannotAsk(f"The cluster cannot be asked: {self._cluster_trouble.message}")
        try:
            return self.cluster_state
        except GpusmithError as error:
            self._cluster_trouble = error
            raise

    def _cluster_finding(self, check: str, target: str) -> Finding:
        state = self._cluster()
        if check == "cluster.api":
            return Finding(check, CLUSTER, Outcome.PASSED, evidence={"nodes": sorted(state.snapshot.nodes)})
        if check == "cluster.leftovers":
            return state.leftovers
        if check == "cluster.runtime-class":
            hosts = list(self.inventory.hosts.values())
            evidence = {"runtime_classes": dict(state.snapshot.runtime_classes)}
            return merge(
                check,
                CLUSTER,
                cluster_checks.runtime_class(state.snapshot, hosts),
                self.inventory.simulated,
                evidence,
            )
        host = self.inventory.hosts[target]
        facts = cluster_checks.ClusterFacts(
            host,
            self.node_name(target),
            self.view(target),
            state.snapshot.system_pods,
            state.snapshot.foreign_fields,
        )
        evidence = cluster_checks.evidence(check, facts.view)
        return merge(check, target, cluster_checks.CHECKS[check](facts), host.simulated, evidence)

    def _workload_finding(self, check: str, target: str) -> Finding:
        self._cluster()
        if self._workload_trouble is not None:
            raise CannotAsk(f"No workload could be started: {self._workload_trouble.message}")
        try:
            outcomes, cleanup = self.workload_runs
        except GpusmithError as error:
            self._workload_trouble = error
            raise
        return cleanup if target == CLUSTER else outcomes[target].findings[check]

    # --- the end -----------------------------------------------------------------------------------------

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
        )
        return Results(
            info,
            in_catalog_order(self.findings),
            self._coverage(),
            self._node_reasons(),
            self._facts(),
            self._ended,
        )

    def _coverage(self) -> dict[str, GpuCoverage]:
        found = {}
        asked = "probed" in self.__dict__ and "cluster_state" in self.__dict__
        for name, host in self.inventory.hosts.items():
            outcome = self._outcomes.get(name)
            view = self.view(name) if asked else None
            busy = (
                {f"{holder.namespace}/{holder.name}": holder.gpus for holder in view.holders} if view else {}
            )
            if outcome is None:
                reason = (
                    "the workloads were ended before they were done"
                    if self._workloads_began
                    else "the workloads tier did not run"
                )
            elif outcome.reason:
                reason = outcome.reason
            else:
                cuda = outcome.findings.get("workloads.cuda")
                reason = (
                    cuda.cause
                    if cuda and cuda.outcome is not Outcome.PASSED
                    else "not allocatable when the run began"
                )
            found[name] = gpu_coverage(host.gpu_count, outcome.tested if outcome else (), busy, reason)
        return found

    def _node_reasons(self) -> dict[str, str]:
        reasons = {name: outcome.reason for name, outcome in self._outcomes.items() if outcome.reason}
        if "probed" in self.__dict__:
            reasons.update({name: row.problem for name, row in self.probed.items() if row.record is None})
        return reasons

    def _facts(self) -> dict[str, Mapping[str, Any]]:
        if "probed" not in self.__dict__:
            return {}
        found: dict[str, Mapping[str, Any]] = {}
        for name, row in self.probed.items():
            if row.record is not None:
                record = row.record
                found[name] = {
                    "node": record.kubernetes.node_name,
                    "boot_id": record.host.boot_id,
                    "kernel": record.host.kernel,
                    "driver": record.module.loaded_version,
                    "containerd": record.containerd.version,
                    "gpus": [gpu.uuid for gpu in record.nvml.gpus],
                }
        return found


def _node_evidence(check: str, record: Record, host: Host) -> dict[str, Any]:
    """What a passed check saw, so that a pass can be read again later."""
    if check == "nodes.driver-versions":
        return {
            "loaded": record.module.loaded_version,
            "nvml": record.library.nvml_version,
            "cuda": record.library.cuda_version,
            "flavour": record.module.flavour,
        }
    if check == "nodes.gpu-count":
        return {
            "pci": len(record.pci.gpus),
            "nvml": len(record.nvml.gpus),
            "dev": len(record.dev.gpu_minors),
            "uuids": [gpu.uuid for gpu in record.nvml.gpus],
        }
    if check == "nodes.cdi":
        return devices.cdi_evidence(record)
    if check == "nodes.xid":
        return health.xid_evidence(record, host.accepted_xids)
    if check == "nodes.simulation-witnesses":
        return {"library_simulated": record.library.simulated}
    return {}


def _version() -> str:
    try:
        return metadata.version("gpusmith")
    except metadata.PackageNotFoundError as error:
        raise ToolError(
            "Package 'gpusmith' is not installed in this environment.", "Run 'make setup'."
        ) from error
