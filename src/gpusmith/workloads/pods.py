"""Runs the pods of one node: makes them, waits for them, reads what they printed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from gpusmith.errors import ToolError
from gpusmith.inventory.host import Host
from gpusmith.kube import Cluster, Object
from gpusmith.snapshot import NodeView
from gpusmith.wait import Deadline, WaitTimeout
from gpusmith.workloads import jobs
from gpusmith.workloads.board import Board
from gpusmith.workloads.jobs import Manifest, Run, Workload
from gpusmith.workloads.judge import Expected, result_of
from gpusmith.workloads.states import state_of
from gpusmith.workloads.targets import Target
from gpusmith.workloads.waiting import Ends, NeverRan, PodProblem, Starts

T = TypeVar("T")

Say = Callable[[str], None]
Maker = Callable[[Run, Workload], Manifest]
"""jobs.job or jobs.pod."""
FOLDERS = {"Job": "/apis/batch/v1", "Pod": "/api/v1"}
END_GRACE_S = 15
"""How long after its own deadline a pod is waited for."""


@dataclass(frozen=True)
class Site:
    """Where the pods of one node are made.

    Attributes:
        cluster: the API.
        run: this run.
        board: its pods.
        target: the node.
        prefix: start of the names of its pods, unique among nodes.
        say: told what is going on.
        made: when each pod was made, on the monotonic clock.
    """

    cluster: Cluster
    run: Run
    board: Board
    target: Target
    prefix: str
    say: Say
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
        """How many GPUs nobody held when the run began."""
        return self.view.free

    @property
    def expected(self) -> Expected:
        """What judges compare with."""
        return Expected(self.host.name, self.host.simulated, self.target.uuids)


@dataclass(frozen=True)
class Pods:
    """Pods for one check on one node.

    Attributes:
        site: where they are made.
        made_again: names of pods that never ran and were made once more, with the reason.
    """

    site: Site
    made_again: dict[str, str] = field(default_factory=dict)

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
            runtime_class=host.pod_runtime_class,
            timeout_s=host.pod_timeout_s,
        )
        return replace(made, **more)

    def create(self, make: Maker, workload: Workload) -> None:
        """Create a Job or a bare pod."""
        site = self.site
        site.made[workload.name] = time.monotonic()
        site.board.expect(workload.name)
        manifest = make(site.run, workload)
        folder = f"{FOLDERS[manifest['kind']]}/namespaces/{site.run.namespace}"
        site.cluster.create(f"{folder}/{manifest['kind'].lower()}s", manifest)

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
        board = self.site.board
        deadline = Deadline(workload.timeout_s + END_GRACE_S)
        ends = Ends(Starts(self.age(workload), board.warning, lambda: board.job_warning(workload.name)))
        try:
            pod = board.wait(f"pod of '{workload.name}' to end", workload.name, ends, deadline)
        except WaitTimeout as error:
            raise PodProblem(
                f"it did not end in time: {error.message}", "Look at the pod's events."
            ) from error
        log, state = self.log(pod), state_of(pod)
        if state.never_ran:
            raise NeverRan(f"its container was not started: {state.ended}")
        if state.phase == "Failed" and result_of(log) is None:
            raise PodProblem(
                f"its pod failed: {state.ended or 'no reason given'}", "Read its output in the evidence.", log
            )
        return log
