"""Runs the workloads on all nodes at once, never takes a busy GPU, and leaves nothing behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from gpusmith import jobs, judge
from gpusmith.catalog import CLUSTER, of_tier
from gpusmith.errors import GpusmithError, ToolError
from gpusmith.findings import Finding, Outcome, Skip, merge
from gpusmith.inventory import Host
from gpusmith.jobs import Run, Workload
from gpusmith.kube import Cluster, Object
from gpusmith.pods import Board, NeverRan, PodProblem, deleted, ends, starts, state_of
from gpusmith.problems import Problem
from gpusmith.snapshot import NodeView
from gpusmith.wait import Deadline, Done, NotYet, WaitTimeout, wait_until

T = TypeVar("T")

NODES_AT_ONCE = 16
PENDING_WAIT_S = 60.0
STAYS_PENDING_S = 3.0
NAMESPACE_WAIT_S = 90.0
HOLD_S = 1800
RACE_STEP = "Run the suite again when the node has less to do; cgroup v2 does not have this race."

NO_NETWORK = "The inventory says that pods of new namespaces reach no Service: 'validation_network: false'."

PER_NODE = tuple(check.id for check in of_tier("workloads") if check.per_node)


@dataclass(frozen=True)
class Target:
    """A node to run workloads on.

    Attributes:
        host: what the inventory says.
        view: its Node object; None if the cluster has none.
        uuids: of its GPUs by the host's NVML; None if its record could not be read.
        runtime_classes: names that the cluster has.
    """

    host: Host
    view: NodeView | None
    uuids: frozenset[str] | None
    runtime_classes: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Refusal:
    """Why no workload was started on a node.

    Attributes:
        reason: one sentence.
        is_failure: the node is broken, and not merely in use or kept back.
        step: what frees the node, where waiting does not.
    """

    reason: str
    is_failure: bool
    step: str = "Run the suite again when the node is free."


@dataclass
class NodeOutcome:
    """What came of one node.

    Attributes:
        findings: by check id.
        tested: UUIDs that the CUDA workload ran on.
        reason: why the node was not tested at all; empty if it was.
    """

    findings: dict[str, Finding] = field(default_factory=dict)
    tested: tuple[str, ...] = ()
    reason: str = ""


def refusal(target: Target) -> Refusal | None:
    """Whether a node can be given workloads at all."""
    view, name = target.view, target.host.name
    if view is None:
        return Refusal(f"Not tested: the cluster has no node for host '{name}'.", True)
    if view.unschedulable:
        return Refusal(
            f"Not tested: node '{view.name}' is cordoned.",
            False,
            f"If it may take pods again: kubectl uncordon {view.name}; then run the suite again.",
        )
    if not view.ready:
        return Refusal(f"Not tested: node '{view.name}' is not Ready: {'; '.join(view.conditions)}.", True)
    ours = {"nvidia.com/gpu", jobs.STARTUP_TAINT, *(str(row["key"]) for row in target.host.taints)}
    foreign = [
        row
        for row in view.taints
        if row.get("effect") in ("NoSchedule", "NoExecute") and row.get("key") not in ours
    ]
    if foreign:
        named = ", ".join(f"{row.get('key')}={row.get('value') or ''}:{row.get('effect')}" for row in foreign)
        removed = " ".join(f"{row.get('key')}:{row.get('effect')}-" for row in foreign)
        return Refusal(
            f"Not tested: node '{view.name}' has taint {named}, which is not the inventory's.",
            False,
            f"Add it to 'kubernetes_node_taints' in the inventory if it is meant; if not: kubectl taint node {view.name}"
            f" {removed}; then run the suite again.",
        )
    if not view.allocatable:
        return Refusal(f"Not tested: node '{view.name}' has no allocatable GPU.", True)
    if not view.free:
        held = ", ".join(f"{holder.namespace}/{holder.name} ({holder.gpus})" for holder in view.holders)
        return Refusal(
            f"Not tested: all {view.allocatable} GPUs of node '{view.name}' are busy, held by {held}.", False
        )
    return None


class NodeRunner:
    """All workloads of one node, one after the other.

    Args:
        cluster: the API.
        run: this run.
        board: its pods.
        target: the node.
        prefix: start of the names of its pods, unique among nodes.
        say: told what is going on.
    """

    def __init__(
        self,
        cluster: Cluster,
        run: Run,
        board: Board,
        target: Target,
        prefix: str,
        say: Callable[[str], None],
    ) -> None:
        assert target.view is not None
        self.cluster, self.run, self.board, self.host, self.view = (
            cluster,
            run,
            board,
            target.host,
            target.view,
        )
        self.uuids, self.prefix, self.say = target.uuids, prefix, say
        self.runtime_classes = target.runtime_classes
        self.outcome = NodeOutcome()
        self.free = target.view.free
        self._made: dict[str, float] = {}
        self._of_this_check = threading.local()

    # --- pods --------------------------------------------------------------------------------------------

    def workload(self, name: str, image: str, command: Sequence[str], gpus: int, **more: Any) -> Workload:
        """What a pod of this node does."""
        if not image:
            raise ToolError(
                f"Host '{self.host.name}' names no image for workload '{name}'.",
                "Set 'validation_image_cuda', 'validation_image_pytorch' and 'validation_image_tensorflow' in the inventory.",
            )
        made = Workload(
            name=f"{self.prefix}-{name}",
            node=self.view.name,
            image=image,
            command=command,
            gpus=gpus,
            simulated=self.host.simulated,
            tolerated=tuple(str(row["key"]) for row in self.host.taints),
            runtime_class=self.host.pod_runtime_class,
            timeout_s=self.host.pod_timeout_s,
        )
        return replace(made, **more)

    def create(self, kind: str, workload: Workload) -> None:
        """Create a Job or a Pod."""
        folder = f"namespaces/{self.run.namespace}"
        self._made[workload.name] = time.monotonic()
        self.board.expect(workload.name)
        if kind == "job":
            self.cluster.create(f"/apis/batch/v1/{folder}/jobs", jobs.job(self.run, workload))
        else:
            self.cluster.create(f"/api/v1/{folder}/pods", jobs.pod(self.run, workload))

    def age(self, workload: Workload) -> Callable[[], float]:
        """Seconds since it was created."""
        return lambda: time.monotonic() - self._made[workload.name]

    def log(self, pod: Object) -> str:
        """What a pod printed."""
        return self.cluster.log(self.run.namespace, pod["metadata"]["name"])

    def patiently(self, kind: str, workload: Workload, wait: Callable[[Workload], T]) -> T:
        """Wait for a Job or Pod; one that never ran is made once more, which the check's evidence then says."""
        try:
            return wait(workload)
        except NeverRan as error:
            again = replace(workload, name=f"{workload.name}-again")
            self._of_this_check.made_again[workload.name] = error.message
            self.say(f"{self.host.name}: pod '{workload.name}' is made once more: {error.message}")
            self.create(kind, again)
            return wait(again)

    def run_job(self, workload: Workload) -> str:
        """The log of a Job, from its creation to its end.

        Raises:
            PodProblem: as finish().
        """
        self.create("job", workload)
        return self.patiently("job", workload, self.finish)

    def finish(self, workload: Workload) -> str:
        """Wait for a Job's pod to end; its log.

        Raises:
            NeverRan: it may be tried again.
            PodProblem: it did not run, or was ended from outside.
        """
        deadline = Deadline(workload.timeout_s + 15)
        try:
            ended = ends(self.age(workload), self.board.warning, lambda: self.board.refusal(workload.name))
            pod = self.board.wait(f"pod of '{workload.name}' to end", workload.name, ended, deadline)
        except WaitTimeout as error:
            raise PodProblem(
                f"it did not end in time: {error.message}", "Look at the pod's events."
            ) from error
        log, state = self.log(pod), state_of(pod)
        if state.never_ran:
            raise NeverRan(f"its container was not started: {state.ended}", RACE_STEP)
        if state.phase == "Failed" and judge.result_of(log) is None:
            raise PodProblem(
                f"its pod failed: {state.ended or 'no reason given'}", "Read its output in the evidence.", log
            )
        return log

    # --- one check ---------------------------------------------------------------------------------------

    def check(
        self, check: str, what: str, work: Callable[[], tuple[Mapping[str, Any], list[Problem]]]
    ) -> bool:
        """Do a check's work and record what came of it; whether it passed."""
        begin = time.monotonic()
        name, simulated = self.host.name, self.host.simulated
        made_again: dict[str, str] = {}
        self._of_this_check.made_again = made_again
        try:
            evidence, problems = work()
            finding = merge(check, name, problems, simulated, evidence)
        except PodProblem as error:
            evidence = {"log": judge.last_words(error.log)} if error.log else {}
            cause = f"Node '{name}': {what}: {error.message.rstrip('.')}."
            finding = Finding(check, name, Outcome.FAILED, cause, evidence, error.hint, simulated)
        except GpusmithError as error:
            finding = Finding(
                check,
                name,
                Outcome.ERROR,
                f"Node '{name}': {what}: {error.message}",
                {},
                error.hint,
                simulated,
            )
        except Exception as error:  # noqa: BLE001 - a fault of ours on one node must not take the others along
            cause = f"Node '{name}': {what}: {type(error).__name__}: {error}"
            finding = Finding(
                check, name, Outcome.ERROR, cause, {}, "Report this as a fault of gpusmith.", simulated
            )
        if made_again:
            finding = replace(finding, evidence={**finding.evidence, "made_again": made_again})
        finding = replace(finding, duration_s=time.monotonic() - begin)
        self.outcome.findings[check] = finding
        self.say(f"{name}: {what}: {finding.outcome.value}, {finding.duration_s:.1f} s")
        return finding.outcome is Outcome.PASSED

    def skip_rest(self, cause: str) -> None:
        """Checks that were not run are failed, for that reason: the node is not proved."""
        for check in PER_NODE:
            if check not in self.outcome.findings:
                self.outcome.findings[check] = Finding(
                    check,
                    self.host.name,
                    Outcome.FAILED,
                    f"Node '{self.host.name}': not tested: {cause}",
                    simulated=self.host.simulated,
                )

    # --- the workloads -----------------------------------------------------------------------------------

    def nvidia_smi(self) -> tuple[Mapping[str, Any], list[Problem]]:
        """On all free GPUs, with one GPU too few it would not be seen."""
        workload = self.workload("nvidia-smi", self.host.images.cuda, ["nvidia-smi", "-L"], self.free)
        seen, problems = judge.nvidia_smi(self.host.name, self.run_job(workload), self.free, self.uuids)
        return {"uuids": seen}, problems

    def cuda(self) -> tuple[Mapping[str, Any], list[Problem]]:
        """Our kernel on all free GPUs."""
        workload = self.workload("cuda", self.host.images.cuda, jobs.program("run_cuda.py"), self.free)
        result, problems = judge.program_result(
            self.host.name, "the CUDA program", self.run_job(workload), self.host.simulated
        )
        seen = judge.cuda_devices(result) if result else []
        self.outcome.tested = tuple(dict.fromkeys(seen))
        if result and not problems:
            problems = judge.uuids_known(self.host.name, "the CUDA program", seen, self.free, self.uuids)
        return dict(result or {}), problems

    def framework(self, name: str, image: str) -> tuple[Mapping[str, Any], list[Problem]]:
        """A training step on one GPU."""
        workload = self.workload(name, image, jobs.program(f"run_{name}.py"), 1)
        result, problems = judge.program_result(
            self.host.name, f"the {name} program", self.run_job(workload), self.host.simulated
        )
        if result and not problems:
            problems = judge.uuids_known(
                self.host.name, f"the {name} program", [str(result.get("uuid"))], 1, self.uuids
            )
        return dict(result or {}), problems

    def held(self, workload: Workload, deadline: Deadline) -> tuple[str, str]:
        """Name of a pod that holds a GPU, and the UUID that it reports.

        Raises:
            PodProblem: it does not hold one.
        """
        return self.patiently("pod", workload, lambda holder: (holder.name, self.held_uuid(holder, deadline)))

    def held_uuid(self, workload: Workload, deadline: Deadline) -> str:
        """UUID of the GPU that a holding pod reports.

        Raises:
            NeverRan: it may be tried again.
            PodProblem: it does not hold one.
        """
        try:
            started = starts(self.age(workload), self.board.warning)
            self.board.wait(f"pod '{workload.name}' to run", workload.name, started, deadline)

            def reported() -> Done[str] | NotYet:
                pod = self.board.pod(workload.name)
                if pod is None:
                    raise deleted(f"pod '{workload.name}'")
                # After the state: the log of a pod that has ended is whole.
                state, log = state_of(pod), self.log(pod)
                result, problems = judge.program_result(
                    self.host.name, f"pod '{workload.name}'", log, self.host.simulated
                )
                if state.never_ran:
                    raise NeverRan(f"pod '{workload.name}' was not started: {state.ended}", RACE_STEP)
                if result is None and state.phase != "Running":
                    raise PodProblem(
                        f"pod '{workload.name}' ended before it named its GPU: {state.ended or state.phase}",
                        f"Read 'journalctl -u containerd -u kubelet' on '{state.node}', and the pod's log.",
                        log,
                    )
                if result is None:
                    return NotYet("no result yet")
                if problems:
                    raise PodProblem(
                        problems[0].cause.removeprefix(f"Node '{self.host.name}': ").rstrip("."),
                        problems[0].next_step,
                        log,
                    )
                return Done(str(result["uuid"]))

            return wait_until(f"pod '{workload.name}' to name its GPU", reported, deadline, tick=0.5)
        except WaitTimeout as error:
            raise PodProblem(error.message, "Look at the pod's events and log.") from error

    def allocation(self) -> tuple[dict[str, str], list[Problem]]:
        """One pod per free GPU, all at once; pod names with their UUIDs."""
        image, command = self.host.images.cuda, jobs.program("hold_gpu.py")
        holders = [
            self.workload(
                f"hold-{n}", image, command, 1, timeout_s=HOLD_S, env={"GPUSMITH_HOLD_S": str(HOLD_S)}
            )
            for n in range(self.free)
        ]
        for holder in holders:
            self.create("pod", holder)
        deadline = Deadline(self.host.pod_timeout_s)
        held = dict(self.held(holder, deadline) for holder in holders)
        return held, judge.uuids_known(
            self.host.name, f"{self.free} pods at the same time", list(held.values()), self.free, self.uuids
        )

    def oversubscription(self, held: Mapping[str, str]) -> tuple[Mapping[str, Any], list[Problem]]:
        """One more pod waits for the scheduler's own reason, and gets exactly the GPU that is freed."""
        extra = self.workload("one-more", self.host.images.cuda, jobs.program("hold_gpu.py"), 1)
        self.create("pod", extra)
        message = self._stays_pending(extra, held)
        ended, freed = next(iter(held.items()))
        self.cluster.delete(f"/api/v1/namespaces/{self.run.namespace}/pods/{ended}", grace_s=1)
        # It waited rightly until now: its patience starts here.
        self._made[extra.name] = time.monotonic()
        _, got = self.held(extra, Deadline(self.host.pod_timeout_s))
        evidence = {"pending": message, "freed": freed, "got": got, "held": dict(held)}
        if got == freed:
            return evidence, []
        also = " which another pod holds" if got in held.values() else ""
        step = "Look for a second device plugin or for time slicing."
        return evidence, [
            Problem(
                f"Node '{self.host.name}': {freed} was freed, but the waiting pod got {got}{also}.",
                step,
                evidence,
            )
        ]

    def _stays_pending(self, extra: Workload, held: Mapping[str, str]) -> str:
        """The scheduler's words, said for a while."""
        since: list[float] = []

        def waits(pod: Object | None) -> Done[str] | NotYet:
            state = state_of(pod) if pod is not None else None
            if state is None:
                return NotYet("no pod yet")
            if state.node:
                raise PodProblem(
                    f"pod '{extra.name}' was placed while {len(held)} pods hold all GPUs that were free",
                    "Look for more than one device plugin, time slicing, or a pod of somebody else that ended meanwhile.",
                )
            if not judge.insufficient(state.unscheduled):
                return NotYet(state.unscheduled or "no word of the scheduler")
            since.append(time.monotonic())
            if time.monotonic() - since[0] < STAYS_PENDING_S:
                return NotYet(state.unscheduled)
            return Done(state.unscheduled)

        try:
            return self.board.wait(
                f"pod '{extra.name}' to stay Pending for lack of GPUs",
                extra.name,
                waits,
                Deadline(PENDING_WAIT_S),
            )
        except WaitTimeout as error:
            raise PodProblem(error.message, "Look at the pod's conditions.") from error

    def look_arounds(self) -> list[Workload]:
        """Pods without a request, started early so that they also bring the largest image to the node."""
        images, command = self.host.images, jobs.program("look_around.py")
        everything = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "all"}
        pods = [
            self.workload("no-request", images.tensorflow or images.cuda, command, 0),
            self.workload("visible-all", images.cuda, command, 0, env=everything),
        ]
        if self.host.runtime_class in self.runtime_classes:
            name = self.host.runtime_class
            pods.append(
                self.workload(
                    "visible-all-runtime", images.cuda, command, 0, env=everything, runtime_class=name
                )
            )
        for pod in pods:
            self.create("job", pod)
        return pods

    def isolation(self, pods: Sequence[Workload]) -> tuple[Mapping[str, Any], list[Problem]]:
        """None of them saw a GPU."""
        evidence: dict[str, Any] = {}
        problems: list[Problem] = []
        if self.host.runtime_class not in self.runtime_classes:
            problems.append(
                Problem(
                    f"Node '{self.host.name}': what a pod with RuntimeClass '{self.host.runtime_class}' sees was not tested:"
                    " the cluster has no such class.",
                    "Run site.yml; see cluster.runtime-class.",
                )
            )
        for pod in pods:
            log = self.patiently("job", pod, self.finish)
            found = judge.result_of(log)
            result, wrong = judge.program_result(
                self.host.name, f"isolation probe '{pod.name}'", log, self.host.simulated
            )
            evidence[pod.name.removeprefix(self.prefix + "-")] = dict(found or {})
            if wrong and result is not None:
                step = (
                    "Set 'accept-nvidia-visible-devices-envvar-when-unprivileged = false'"
                    " in /etc/nvidia-container-runtime/config.toml,"
                    " and run no workload with the nvidia runtime by default."
                )
                wrong = [replace(problem, next_step=step) for problem in wrong]
            problems.extend(wrong)
        return evidence, problems

    def network_probe(self) -> Workload:
        """A pod like any other, started early: it waits for nothing but the network."""
        # The resolver's own patience is 30 s and more for a server that does not answer.
        patience = {"RES_OPTIONS": "timeout:2 attempts:2"}
        pod = self.workload(
            "network", self.host.images.cuda, jobs.program("reach_service.py"), 0, env=patience
        )
        self.create("job", pod)
        return pod

    def network(self, pod: Workload) -> tuple[Mapping[str, Any], list[Problem]]:
        """It found a Service by name, and reached it."""
        result, problems = judge.program_result(
            self.host.name, "the network probe", self.patiently("job", pod, self.finish), self.host.simulated
        )
        if result is not None:
            step = (
                f"Compare with a pod on another node; look at routes and kubelet's 'clusterDNS' on '{self.host.name}', at CoreDNS"
                " and kube-proxy. Where policies forbid it to new namespaces: 'validation_network: false'."
            )
            problems = [replace(problem, next_step=step) for problem in problems]
        return dict(result or {}), problems

    # --- in order ----------------------------------------------------------------------------------------

    def run_all(self) -> NodeOutcome:
        """Everything, in the order in which a failure tells most."""
        if not self.host.network:
            self.outcome.findings["workloads.network"] = Finding(
                "workloads.network", self.host.name, Outcome.SKIPPED, NO_NETWORK,
                simulated=self.host.simulated, skip=Skip.NOT_APPLICABLE,
            )  # fmt: skip
        around: list[Workload] = []
        probes: list[Workload] = []

        def begin_and_smi() -> tuple[Mapping[str, Any], list[Problem]]:
            if self.host.network:
                probes.append(self.network_probe())
            around.extend(self.look_arounds())
            return self.nvidia_smi()

        def without_gpus() -> None:
            for probe in probes:
                self.check("workloads.network", "network", partial(self.network, probe))
            if around:
                self.check("workloads.isolation", "isolation", lambda: self.isolation(around))

        self.check("workloads.nvidia-smi", "nvidia-smi", begin_and_smi)
        first = self.outcome.findings["workloads.nvidia-smi"]
        if first.outcome is Outcome.ERROR or (
            first.outcome is Outcome.FAILED and "uuids" not in first.evidence
        ):
            without_gpus()
            self.skip_rest("the first workload did not run; see workloads.nvidia-smi.")
            return self.outcome
        self.check("workloads.cuda", f"CUDA on {self.free} GPUs", self.cuda)
        images = self.host.images
        steps = [
            lambda: self.check(
                "workloads.pytorch", "PyTorch", lambda: self.framework("pytorch", images.pytorch)
            ),
            lambda: self.check(
                "workloads.tensorflow", "TensorFlow", lambda: self.framework("tensorflow", images.tensorflow)
            ),
        ]
        with ThreadPoolExecutor(max_workers=min(len(steps), self.free)) as pool:
            for done in [pool.submit(step) for step in steps]:
                done.result()
        without_gpus()
        held: dict[str, str] = {}

        def allocate() -> tuple[Mapping[str, Any], list[Problem]]:
            found, problems = self.allocation()
            held.update(found)
            return {"held": found}, problems

        if self.check("workloads.allocation", f"{self.free} pods with one GPU each", allocate):
            self.check(
                "workloads.oversubscription", "one pod more than GPUs", lambda: self.oversubscription(held)
            )
        self.skip_rest("the workload before it failed.")
        return self.outcome


def refused(target: Target, why: Refusal) -> NodeOutcome:
    """What is recorded for a node that got no workload: never a pass."""
    outcome = Outcome.FAILED if why.is_failure else Outcome.SKIPPED
    step = "See the checks of the nodes and cluster tiers." if why.is_failure else why.step
    findings = {
        check: Finding(
            check, target.host.name, outcome, why.reason, {}, step, target.host.simulated,
            skip=None if why.is_failure else Skip.LEFT_OUT,
        )
        for check in PER_NODE
    }  # fmt: skip
    return NodeOutcome(findings, (), why.reason)


def prepare(cluster: Cluster, run: Run, programs: Path) -> None:
    """Make the run's namespace and put the programs into it."""
    cluster.create("/api/v1/namespaces", jobs.namespace(run))
    cluster.create(f"/api/v1/namespaces/{run.namespace}/configmaps", jobs.programs(run, programs))

    def account() -> Done[None] | NotYet:
        # Pods are refused until the controller has made it.
        there = cluster.get(f"/api/v1/namespaces/{run.namespace}/serviceaccounts/default")
        return Done(None) if there else NotYet("it is not there")

    try:
        wait_until(
            f"service account 'default' of namespace '{run.namespace}'", account, Deadline(60), tick=0.3
        )
    except WaitTimeout as error:
        raise ToolError(error.message, "Is the cluster's controller manager running?") from error


def remove_namespace(cluster: Cluster, name: str) -> str:
    """Delete a namespace and wait until it is gone; why it is not, empty if it is."""
    try:
        cluster.delete(f"/api/v1/namespaces/{name}")

        def gone() -> Done[None] | NotYet:
            there = cluster.get(f"/api/v1/namespaces/{name}")
            if there is None:
                return Done(None)
            conditions = (there.get("status") or {}).get("conditions") or []
            said = "; ".join(str(row.get("message")) for row in conditions if row.get("status") == "True")
            return NotYet(said or str((there.get("status") or {}).get("phase")))

        wait_until(f"namespace '{name}' to be gone", gone, Deadline(NAMESPACE_WAIT_S), tick=0.5)
    except GpusmithError as error:
        return error.message
    return ""


def run_all(
    cluster: Cluster, run: Run, programs: Path, targets: Sequence[Target], say: Callable[[str], None]
) -> tuple[dict[str, NodeOutcome], Finding]:
    """Workloads on all nodes, and the finding about what is left behind.

    Raises:
        ToolError: nothing could be started.
    """
    refusals = {target.host.name: refusal(target) for target in targets}
    outcomes: dict[str, NodeOutcome] = {}
    ready: list[Target] = []
    for target in targets:
        why = refusals[target.host.name]
        if why is None:
            ready.append(target)
        else:
            say(f"{target.host.name}: {why.reason}")
            outcomes[target.host.name] = refused(target, why)
    if not ready:
        return outcomes, Finding("workloads.cleanup", CLUSTER, Outcome.PASSED, evidence={"made": "nothing"})
    try:
        prepare(cluster, run, programs)
        with (
            Board(cluster, run.namespace) as board,
            ThreadPoolExecutor(max_workers=min(NODES_AT_ONCE, len(ready))) as pool,
        ):
            runners = [
                NodeRunner(cluster, run, board, target, f"n{place}", say)
                for place, target in enumerate(ready)
            ]
            started = [(runner.host.name, pool.submit(runner.run_all)) for runner in runners]
            try:
                for name, future in started:
                    outcomes[name] = future.result()
            except BaseException:
                # Interrupted: the other nodes' threads must not wait on, so that what was made is removed at once.
                board.stop()
                raise
    finally:
        begin = time.monotonic()
        left = remove_namespace(cluster, run.namespace)
    spent = time.monotonic() - begin
    if left:
        return outcomes, Finding(
            "workloads.cleanup", CLUSTER, Outcome.FAILED, f"Namespace '{run.namespace}' of this run is still there: {left}.",
            {"namespace": run.namespace}, f"Find what holds it: kubectl get namespace {run.namespace} -o yaml", duration_s=spent,
        )  # fmt: skip
    return outcomes, Finding(
        "workloads.cleanup", CLUSTER, Outcome.PASSED, evidence={"namespace": run.namespace}, duration_s=spent
    )
