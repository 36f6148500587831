"""What the checks of a run are answered from: nodes, cluster and workloads, each asked once, and only if it is needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from gpusmith.checks.findings import CannotAsk, Finding, NotApplicable
from gpusmith.checks.watched import Answers, held_on, shared_out
from gpusmith.checks.whole_cluster import Removed
from gpusmith.cluster import leftovers, snapshot
from gpusmith.cluster.api import Cluster
from gpusmith.cluster.snapshot import Snapshot
from gpusmith.cluster.views import NodeView
from gpusmith.cluster.web import ALERTMANAGER, PROMETHEUS, Addressed, Proxied, Web
from gpusmith.data.monitoring import NONE
from gpusmith.data.operands import FEATURE_DISCOVERY, MANAGED
from gpusmith.errors import GpusmithError
from gpusmith.names import OPERANDS_LABEL, OPERANDS_PAUSED
from gpusmith.node import local
from gpusmith.node.bundle import bundle
from gpusmith.node.connections import Node, Probed, connect, probe_all
from gpusmith.node.facts import Fleet
from gpusmith.probe.record import Record
from gpusmith.suite import monitoring, own
from gpusmith.suite.evidence import ANSWERS, CLUSTER, WORKLOADS, Evidence
from gpusmith.wanted.inventory import Inventory
from gpusmith.wanted.node import NodeWanted
from gpusmith.wanted.offers import Device
from gpusmith.workloads import machines, namespace, priority, runner
from gpusmith.workloads.jobs import Run, earlier
from gpusmith.workloads.outcome import NodeOutcome
from gpusmith.workloads.targets import Target
from gpusmith.workloads.uniformity import Like, alike

MACHINES = "machines"
"""That pods ask, beside the files of the evidence: what can be in trouble."""

Say = Callable[[str], None]
T = TypeVar("T")


def kind_of(host: NodeWanted, record: Record) -> str:
    """What nodes with the same GPUs have in common: the inventory's model, else the PCI IDs."""
    return host.gpu_model or ",".join(sorted({gpu.device_id for gpu in record.pci.gpus}))


def devices(record: Record) -> frozenset[Device]:
    """What pods of a node are given: its GPUs; of those in MIG mode, their MIG devices."""
    whole = {Device(gpu.uuid) for gpu in record.nvml.gpus if gpu.uuid and gpu.mig_mode != "enabled"}
    parts = {
        Device(part.uuid, gpu.uuid)
        for gpu in record.nvml.gpus
        if gpu.uuid and gpu.mig_mode == "enabled"
        for part in gpu.instances or ()
        if part.uuid
    }
    return frozenset(whole | parts)


@dataclass(frozen=True)
class ClusterState:
    """What the cluster tier reads.

    Attributes:
        cluster: the connection; None if the lists are of a run that is replayed.
        snapshot: the lists.
        removed: what earlier runs left, and what was done about it; None if nobody looked.
    """

    cluster: Cluster | None
    snapshot: Snapshot
    removed: Removed | None


class Sources:
    """Asks each source at most once in a run.

    Args:
        inventory: its nodes.
        programs: folder of what runs inside pods.
        run: whose pods they are.
        say: told about long steps.
        nodes: replaced in tests; by default the inventory's connections.
        working_folder: where the suite was started.
        maintenance: ID of the upgrade that nodes are tested for; empty if there is none.
        evidence: keeps what it is told.
    """

    def __init__(
        self,
        inventory: Inventory,
        programs: Path,
        run: Run,
        say: Say,
        nodes: Mapping[str, Node] | None,
        working_folder: Path,
        maintenance: str = "",
        evidence: Evidence | None = None,
    ) -> None:
        self.inventory, self.programs, self.run, self.say = inventory, programs, run, say
        self.maintenance, self.evidence = maintenance, evidence or Evidence()
        self.workloads_began = False
        self.only_looks = False
        """Nothing is removed and nothing is made."""
        self._nodes, self._folder = nodes, working_folder
        self._troubles: dict[str, GpusmithError] = {}

    def simulated(self, target: str) -> bool:
        """Whether the inventory says so of a node; of the cluster, whether it does of any node."""
        host = self.inventory.hosts.get(target)
        return host.simulated if host else self.inventory.simulated

    # --- nodes -------------------------------------------------------------------------------------------

    @cached_property
    def probed(self) -> dict[str, Probed]:
        """Every node's record."""
        if self._nodes is None and self.inventory.by_pods:
            return self._probed_by_pods()
        return self._probe(self._nodes if self._nodes is not None else connect(self.inventory, self._folder))

    def _probed_by_pods(self) -> dict[str, Probed]:
        """The same of machines that pods look at; trouble is an error once, then a reason to leave checks out."""
        cluster = self.cluster().cluster
        assert cluster is not None

        def look() -> dict[str, Probed]:
            run, targets = self.targets(recorded=False)
            with machines.reached(cluster, run, self.programs, targets, self.say, bundle()) as (nodes, end):
                return self._probe(nodes, end)

        return self._asked_once(MACHINES, "No machine can be asked", look)

    def _probe(self, nodes: Mapping[str, Node], end: Callable[[], None] = local.end_all) -> dict[str, Probed]:
        self.say(f"probing {len(nodes)} GPU nodes")
        found = probe_all(
            self.evidence.nodes(nodes),
            {name: host.gpus_ignored for name, host in self.inventory.hosts.items()},
            own.facts(self.inventory.folders),
            end,
        )
        slowest = max(found.values(), key=lambda row: row.duration_s)
        self.say(
            f"{sum(row.record is not None for row in found.values())} of {len(found)} answered, within {slowest.duration_s:.1f} s"
        )
        return found

    @property
    def probed_so_far(self) -> Mapping[str, Probed]:
        """The same; empty if no check has asked yet."""
        return self.probed if "probed" in self.__dict__ else {}

    @cached_property
    def everyone(self) -> Fleet:
        """Records of all nodes that answered."""
        return Fleet({name: row.record for name, row in self.probed.items() if row.record is not None})

    @cached_property
    def fleets(self) -> Mapping[str, Fleet]:
        """The same by what GPUs they have, see `kind_of`."""
        found: dict[str, dict[str, Record]] = {}
        for name, record in self.everyone.items():
            found.setdefault(kind_of(self.inventory.hosts[name], record), {})[name] = record
        return {kind: Fleet(records) for kind, records in found.items()}

    def record(self, host: str) -> Record | None:
        """A node's record; None if it did not answer."""
        return self.probed[host].record

    def node_name(self, host: str) -> str:
        """Name of a host's Node object."""
        record = self.probed_so_far[host].record if self.probed_so_far else None
        return (record.kubernetes.node_name if record else None) or self.inventory.hosts[host].node_name

    # --- the cluster -------------------------------------------------------------------------------------

    @cached_property
    def cluster_state(self) -> ClusterState:
        """Connection, what earlier runs left, and the lists.

        Raises:
            GpusmithError: the cluster cannot be asked.
        """
        self.say("asking the cluster")
        cluster, ours = Cluster(self.inventory.access), self.inventory.managed
        removes = (ours or self.run.within) and not self.only_looks
        removed = self._remove_leftovers(cluster) if removes else None
        wanted = {
            self.node_name(name): host.operands.namespace for name, host in self.inventory.hosts.items()
        }
        lists = self.evidence.lists(cluster)
        taken = snapshot.take_settled(lists, wanted, self.say, loaded=self._loaded(), ours=ours)
        self.evidence.cluster([{"removed": asdict(removed) if removed else None}])
        return ClusterState(cluster, taken, removed)

    def _loaded(self) -> dict[str, str]:
        """Drivers that an upgrade loaded, by the node that our feature discovery describes anew."""
        found = {
            self.node_name(name): record.module.loaded_version
            for name, host in self.inventory.hosts.items()
            if self.maintenance and FEATURE_DISCOVERY in host.operands.ours and (record := self.record(name))
        }
        return {name: version for name, version in found.items() if version}

    def _remove_leftovers(self, cluster: Cluster) -> Removed:
        within = self.run.within
        found = leftovers.find(cluster, self.say, within=within)
        stuck = {}
        for name in found.dead:
            self.say(f"removing {'what' if within else 'namespace'} '{name}', which an earlier run left")
            why = (
                namespace.clear(cluster, earlier(self.run, name))
                if within
                else namespace.remove(cluster, name)
            )
            if why:
                stuck[name] = why
        return Removed(found.dead, found.alive, stuck, within)

    def cluster(self) -> ClusterState:
        """The cluster's state; its trouble is an error once, then a reason to leave checks out.

        Raises:
            GpusmithError: the cluster cannot be asked.
            CannotAsk: a check has said so already.
        """
        return self._asked_once(CLUSTER, "The cluster cannot be asked", lambda: self.cluster_state)

    def _asked_once(self, what: str, words: str, ask: Callable[[], T]) -> T:
        """An answer, or the trouble with it: an error once, then the reason why other checks cannot be asked."""
        if what in self._troubles:
            raise CannotAsk(f"{words}: {self._troubles[what].message}")
        try:
            return ask()
        except GpusmithError as error:
            self._troubles[what] = error
            if what != MACHINES:  # Its evidence is what each of them said.
                self.evidence.could_not(what, error)
            raise

    def view(self, host: str) -> NodeView | None:
        """A host's Node object."""
        return self.cluster_state.snapshot.nodes.get(self.node_name(host))

    def view_so_far(self, host: str) -> NodeView | None:
        """The same; None as well if no check has asked the cluster yet."""
        return self.view(host) if "cluster_state" in self.__dict__ else None

    # --- what watches it ---------------------------------------------------------------------------------

    @cached_property
    def answers(self) -> Answers:
        """What Prometheus and Alertmanager answered.

        Raises:
            GpusmithError: the way to them is broken.
        """
        wanted, state, hosts = self.inventory.monitoring, self.cluster_state, self.inventory.hosts
        cluster = state.cluster
        assert cluster is not None
        self.say("asking Prometheus")
        names = {self.node_name(name): host for name, host in hosts.items()}

        def held(nodes: Mapping[str, NodeView]) -> dict[str, dict[str, int]]:
            rows = ((name, view, names[name].gpu_count) for name, view in nodes.items())
            return {
                name: held_on(view, view.offers(gpus))
                for name, view, gpus in rows
                if not shared_out(view, gpus)
            }

        def held_again() -> dict[str, dict[str, int]]:
            spaces = {name: host.operands.namespace for name, host in names.items()}
            return held(snapshot.take(cluster, spaces).nodes)

        def service(owner: str, name: str) -> Web | None:
            return Proxied(cluster, wanted.namespace, name) if owner == MANAGED else None

        served = {
            name
            for name, view in state.snapshot.nodes.items()
            if view.ready and view.labels.get(OPERANDS_LABEL) != OPERANDS_PAUSED
        }
        found = monitoring.ask(
            monitoring.Asked(
                wanted,
                service(wanted.prometheus, PROMETHEUS) or Addressed(wanted.prometheus_url),
                service(wanted.alertmanager, ALERTMANAGER),
                frozenset(served if wanted.dcgm_exporter != NONE else ()),
                held(state.snapshot.nodes),
                held_again,
                self.say,
            )
        )
        self.evidence.answers(found)
        return found

    def watched(self) -> Answers:
        """The same; trouble is an error once, then a reason to leave checks out.

        Raises:
            GpusmithError: the cluster cannot be asked, or not for them.
            NotApplicable: there is no Prometheus, or no way to it; nobody is asked then.
            CannotAsk: a check has said so already.
        """
        wanted = self.inventory.monitoring
        if wanted.prometheus == NONE:
            raise NotApplicable("Not applicable: 'gpu_monitoring_prometheus' is 'none'.")
        if wanted.prometheus != MANAGED and not wanted.prometheus_url:
            raise NotApplicable(
                "Not applicable: 'gpu_monitoring_prometheus_url' does not name the cluster's Prometheus."
            )
        self.cluster()
        return self._asked_once(ANSWERS, "Prometheus cannot be asked", lambda: self.answers)

    # --- workloads ---------------------------------------------------------------------------------------

    @cached_property
    def workload_runs(self) -> tuple[dict[str, NodeOutcome], Finding]:
        """Run all workloads on all nodes.

        Raises:
            GpusmithError: nothing could be started.
        """
        run, targets = self.targets()
        self.say(f"running workloads in namespace '{run.namespace}'")
        self.workloads_began = True
        cluster = self.cluster_state.cluster
        assert cluster is not None
        found = runner.run_all(cluster, run, self.programs, targets, self.say)
        self.evidence.workloads(*found)
        return found

    @cached_property
    def _priority(self) -> str:
        """The class of pods in a namespace that stays; what they may do to others without it is told before one is made."""
        cluster, host = self.cluster_state.cluster, next(iter(self.inventory.hosts.values()))
        assert cluster is not None
        found = priority.there(cluster)
        if not found and not self.only_looks:
            image = host.validation.images["cuda"]
            said = priority.of_default(cluster, self.run, host.node_name, image)
            if said:
                self.say(said)
        return found

    def targets(self, recorded: bool = True) -> tuple[Run, list[Target]]:
        """The run as it makes pods, and the nodes that it makes them for.

        Args:
            recorded: the machines are asked for their GPUs.

        Raises:
            GpusmithError: the cluster cannot be asked.
        """
        state, run = self.cluster_state, self.run
        targets = []
        if run.within:
            run = replace(run, priority=self._priority)
        for name, host in self.inventory.hosts.items():
            record = self.record(name) if recorded and (host.managed or self.inventory.by_pods) else None
            given = devices(record) if record else None
            classes = frozenset(state.snapshot.runtime_classes)
            targets.append(
                Target(
                    host,
                    self.view(name),
                    given,
                    classes,
                    self.maintenance,
                    run.gpu_budget,
                    yields=bool(run.priority),
                    recorded=record is not None,
                )
            )
        return run, targets

    @cached_property
    def alike(self) -> Mapping[str, Like]:
        """GPUs of the run by name, with the medians of their rates."""
        return alike(self.workload_runs[0].values())

    def workloads(self) -> tuple[dict[str, NodeOutcome], Finding]:
        """What came of them; trouble is an error once, then a reason to leave checks out.

        Raises:
            GpusmithError: the cluster cannot be asked, or nothing could be started.
            CannotAsk: a check has said so already.
        """
        self.cluster()
        return self._asked_once(WORKLOADS, "No workload could be started", lambda: self.workload_runs)

    @property
    def outcomes_so_far(self) -> Mapping[str, NodeOutcome]:
        """What came of them; empty if no check has asked yet, or if they were interrupted."""
        return self.workload_runs[0] if "workload_runs" in self.__dict__ else {}
