"""Runs the pods of one node: makes them, waits for them, reads what they printed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from gpusmith.cluster.api import Cluster, Object
from gpusmith.cluster.views import NodeView
from gpusmith.errors import GpusmithError, ToolError
from gpusmith.inventory.host import Host
from gpusmith.wait import Deadline, WaitTimeout
from gpusmith.workloads import jobs
from gpusmith.workloads.board import Board
from gpusmith.workloads.jobs import Manifest, Run, Workload
from gpusmith.workloads.judge import Expected, result_of
from gpusmith.workloads.states import state_of
from gpusmith.workloads.targets import Look, NotTested, Target, by_others, why_not
from gpusmith.workloads.waiting import Contended, Ends, NeverRan, PodProblem, PullTrouble, Starts

T = TypeVar("T")

Say = Callable[[str], None]
Maker = Callable[[Run, Workload], Manifest]
"""jobs.job or jobs.pod."""
FOLDERS = {"Job": "/apis/batch/v1", "Pod": "/api/v1"}
END_GRACE_S = 15
"""How long after its own deadline a pod is waited for."""
OTHERS_WAIT_S = 10.0
"""How long a pod that takes the place of ours may take to be seen."""
OTHERS_TICK_S = 1.0


@dataclass(eq=False)
class Site:
    """Where the pods of one node are made.

    Attributes:
        cluster: the API.
        run: this run.
        board: its pods.
        target: the node, as it was looked at last.
        prefix: start of the names of its pods, unique among nodes.
        say: told what is going on.
        look: reads its Node object anew.
        made: when each pod was made, on the monotonic clock.
    """

    cluster: Cluster
    run: Run
    board: Board
    target: Target
    prefix: str
    say: Say
    look: Look
    made: dict[str, float] = field(default_factory=dict)

    @property
    def host(self) -> Host:
        """What the inventory says of the node."""
        return self.target.host

    @property
    def view(self) -> NodeView:
        """Its Node object; a node without one gets no pods."""
        assert self.target.view is not None
        return self.target.view

    @property
    def free(self) -> int:
        """How many GPUs nobody held at the last look."""
        return self.view.free

    def refresh(self) -> NotTested | None:
        """Look at the node; why it cannot be given GPUs to test now, None if it can."""
        self.target = replace(self.target, view=self.look(self.target))
        return why_not(self.target)

    def by_others(self, pods: Sequence[str]) -> str:
        """What other users did meanwhile that explains why our pods did not get or keep GPUs; empty if nothing does.

        Args:
            pods: names of our workloads.
        """
        deadline, before = Deadline(OTHERS_WAIT_S), self.target
        while True:
            now = self.look(before)
            said = by_others(before, now) or self._preempted(pods)
            if said:
                self.target = replace(before, view=now)
            if said or deadline.passed():
                return said
            time.sleep(OTHERS_TICK_S)

    def _preempted(self, pods: Sequence[str]) -> str:
        folder = f"/api/v1/namespaces/{self.run.namespace}/events"
        for event in self.cluster.items(folder, fieldSelector="reason=Preempted"):
            name = str((event.get("involvedObject") or {}).get("name"))
            if any(name == pod or name.startswith(f"{pod}-") for pod in pods):
                return (
                    f"pod '{name}' gave way to a pod of somebody else: {event.get('message') or 'Preempted'}"
                )
        return ""

    @property
    def expected(self) -> Expected:
        """What judges compare with."""
        return Expected(self.host.name, self.host.simulated, self.target.uuids)


@dataclass(frozen=True, eq=False)
class Pods:
    """Pods for one check on one node.

    Attributes:
        site: where they are made.
        made_again: names of pods that never ran and were made once more, with the reason.
        made: kind and workload of each.
    """

    site: Site
    made_again: dict[str, str] = field(default_factory=dict)
    made: list[tuple[str, Workload]] = field(default_factory=list)

    def workload(self, name: str, image: str, command: Sequence[str], gpus: int, **more: Any) -> Workload:
        """What a pod of this node does.

        Args:
            name: unique on the node.
            image: container image.
            command: program and arguments.
            gpus: how many it asks for.
            more: further fields of Workload.

        Raises:
            ToolError: the inventory names no image.
        """
        host = self.site.host
        if not image:
            raise ToolError(
                f"Host '{host.name}' names no image for workload '{name}'.",
                "Set 'validation_image_cuda', 'validation_image_pytorch' and 'validation_image_tensorflow' in the inventory.",
            )
        made = Workload(
            name=f"{self.site.prefix}-{name}",
            node=self.site.view.name,
            image=image,
            command=command,
            gpus=gpus,
            simulated=host.simulated,
            tolerated=tuple(str(row["key"]) for row in host.taints),
            cordoned=self.site.target.in_maintenance,
            runtime_class=host.pod_runtime_class,
            timeout_s=host.pod_timeout_s,
            pull_s=host.pull_timeout_s,
        )
        return replace(made, **more)

    def create(self, make: Maker, workload: Workload) -> None:
        """Create a Job or a bare pod."""
        site = self.site
        site.made[workload.name] = time.monotonic()
        site.board.expect(workload.name)
        manifest = make(site.run, workload)
        self.made.append((manifest["kind"], workload))
        folder = f"{FOLDERS[manifest['kind']]}/namespaces/{site.run.namespace}"
        site.cluster.create(f"{folder}/{manifest['kind'].lower()}s", manifest)

    def release(self) -> None:
        """Give back the GPUs of these pods now: a Job or pod that has not ended is deleted.

        What cannot be deleted now goes with the run's namespace, which says so if it stays.
        """
        board = self.site.board
        for kind, workload in self.made:
            there = board.pod(workload.name)
            ended = there is not None and state_of(there).phase in ("Succeeded", "Failed")
            if not workload.gpus or ended or board.stopped:
                continue
            with suppress(GpusmithError):
                if kind == "Job":
                    # Before its pod, so that it makes no other one.
                    folder = f"{FOLDERS[kind]}/namespaces/{self.site.run.namespace}"
                    self.site.cluster.delete(f"{folder}/jobs/{workload.name}")
                if there is not None or kind == "Pod":
                    self.delete(str(there["metadata"]["name"]) if there is not None else workload.name)

    def delete(self, name: str) -> None:
        """Delete a bare pod."""
        folder = f"{FOLDERS['Pod']}/namespaces/{self.site.run.namespace}"
        self.site.cluster.delete(f"{folder}/pods/{name}", grace_s=1)

    def age(self, workload: Workload) -> Callable[[], float]:
        """Seconds since it was created."""
        return lambda: time.monotonic() - self.site.made[workload.name]

    def log(self, pod: Object) -> str:
        """What a pod printed."""
        return self.site.cluster.log(self.site.run.namespace, pod["metadata"]["name"])

    def patiently(self, make: Maker, workload: Workload, wait: Callable[[Workload], T]) -> T:
        """Wait for a Job or pod; one that never ran is made once more, which the check's evidence then says."""
        try:
            return wait(workload)
        except NeverRan as error:
            again = replace(workload, name=f"{workload.name}-again")
            self.made_again[workload.name] = error.message
            self.site.say(f"{self.site.host.name}: pod '{workload.name}' is made once more: {error.message}")
            self.create(make, again)
            return wait(again)

    def run_job(self, workload: Workload) -> str:
        """The log of a Job, from its creation to its end.

        Raises:
            PodProblem: it did not run, or was ended from outside.
        """
        self.create(jobs.job, workload)
        return self.log_of_job(workload)

    def log_of_job(self, workload: Workload) -> str:
        """The log of a Job that was created before, at its end.

        Raises:
            PodProblem: it did not run, or was ended from outside.
        """
        return self.patiently(jobs.job, workload, self._ended)

    def _ended(self, workload: Workload) -> str:
        board, name = self.site.board, workload.name
        starts = Starts(self.age(workload), board.warning, lambda: board.job_warning(name))
        self.started(workload, starts, f"pod of '{name}'")
        deadline = Deadline(workload.timeout_s + END_GRACE_S)
        try:
            pod = board.wait(f"pod of '{name}' to end", name, Ends(starts), deadline)
        except WaitTimeout as error:
            raise PodProblem(
                f"it did not end in time: {error.message}", "Look at the pod's events."
            ) from error
        log, state = self.log(pod), state_of(pod)
        if state.displaced and result_of(log) is None:
            raise Contended(f"its pod was ended from outside: {state.displaced}", "", log)
        if state.never_ran:
            raise NeverRan(f"its container was not started: {state.ended}")
        if state.phase == "Failed" and result_of(log) is None:
            raise PodProblem(
                f"its pod failed: {state.ended or 'no reason given'}", "Read its output in the evidence.", log
            )
        return log

    def started(self, workload: Workload, starts: Starts, what: str) -> None:
        """Wait until a pod runs or has ended; pulling its image has a deadline of its own.

        Args:
            workload: of the pod.
            starts: judges it.
            what: the pod in words.

        Raises:
            PodProblem: it does not start.
            PullTrouble: its image does not come.
        """
        board, deadline = self.site.board, Deadline(workload.pull_s)
        try:
            board.wait(f"{what} to run", workload.name, starts, deadline)
        except WaitTimeout as error:
            if board.stopped:
                raise
            if starts.registry:
                raise PullTrouble(f"the image of its pod cannot be had: {starts.registry}") from error
            pulling = self._pulling(workload)
            if pulling:
                raise PullTrouble(
                    f"the image of its pod did not come within {workload.pull_s:.0f} s: {pulling}"
                ) from error
            raise PodProblem(
                f"it did not start in time: {error.message}", "Look at the pod's events."
            ) from error

    def _pulling(self, workload: Workload) -> str:
        """What the kubelet said when it began to pull; empty if it did not, or is through."""
        there = self.site.board.pod(workload.name)
        if there is None:
            return ""
        folder = f"/api/v1/namespaces/{self.site.run.namespace}/events"
        events = self.site.cluster.items(
            folder, fieldSelector=f"involvedObject.name={there['metadata']['name']}"
        )
        said = {str(event.get("reason")): str(event.get("message")) for event in events}
        return "" if "Pulled" in said else said.get("Pulling", "")
