"""Runs the pods of one node: makes them, waits for them, reads what they printed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from gpusmith.checks.findings import NotApplicable
from gpusmith.cluster import dra
from gpusmith.cluster.api import Object
from gpusmith.errors import GpusmithError, ToolError
from gpusmith.wait import Deadline, WaitTimeout
from gpusmith.workloads import jobs
from gpusmith.workloads.jobs import Manifest, PodTask, Run
from gpusmith.workloads.judge import result_of
from gpusmith.workloads.node import NodeUnderTest
from gpusmith.workloads.states import queue_of, state_of
from gpusmith.workloads.waiting import (
    Contended,
    Ends,
    NeverRan,
    NotLocal,
    PodProblem,
    PullTrouble,
    Starts,
    out_of_memory,
)

T = TypeVar("T")

Maker = Callable[[Run, PodTask], Manifest]
"""jobs.job or jobs.pod."""
FOLDERS = {"Job": "/apis/batch/v1", "Pod": "/api/v1"}
ONE_EACH = "each GPU was tested in a pod of its own, and no pod with several"
END_GRACE_S = 15
"""How long after its own deadline a pod is waited for."""


@dataclass(frozen=True, eq=False)
class Pods:
    """Pods of one workload on one node.

    Attributes:
        node: where they are made.
        image: as of the workload.
        gpus: how many the workload gets on this node: GPUs, or shares of GPUs.
        made_again: names of pods that never ran and were made once more, with the reason.
        made: kind and task of each.
        notes: what a person should know of how the work was done.
        suspended: how somebody suspended Jobs as they were made, by their names.
    """

    node: NodeUnderTest
    image: str
    gpus: int
    made_again: dict[str, str] = field(default_factory=dict)
    made: list[tuple[str, PodTask]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    suspended: dict[str, str] = field(default_factory=dict)

    def task(
        self, name: str, command: Sequence[str], gpus: int | None = None, image: str = "", **more: Any
    ) -> PodTask:
        """What a pod of this node does.

        Args:
            name: unique on the node.
            command: program and arguments.
            gpus: how many it asks for; all that the workload gets, if left out.
            image: as of the workload; another one than the workload's.
            more: further fields of PodTask.

        Raises:
            ToolError: the inventory names no image.
        """
        host, image = self.node.host, image or self.image
        reference = host.validation.images.get(image)
        if not reference and not host.managed:
            raise NotApplicable(f"not applicable: option '--images' names no image '{image}'.")
        if not reference:
            raise ToolError(
                f"Host '{host.name}' names no image for workload '{name}'.",
                f"Set 'validation_images.{image}' in the inventory.",
            )
        made = PodTask(
            name=f"{self.node.prefix}-{name}",
            node=self.node.view.name,
            image=reference,
            command=command,
            gpus=self.gpus if gpus is None else gpus,
            resource=self.node.offer.resource,
            simulated=host.simulated,
            tolerated=self.node.target.tolerated,
            cordoned=self.node.target.in_maintenance,
            runtime_class=host.validation.runtime_class,
            limits=host.validation.pod_limits,
            shares=self.node.layout.shares,
            timeout_s=host.validation.timeout_pod_s,
            pull_s=host.validation.timeout_pull_s,
        )
        return replace(made, **more)

    @property
    def tasks(self) -> list[PodTask]:
        """What pods were made for."""
        return [task for _, task in self.made]

    def create(self, make: Maker, task: PodTask) -> None:
        """Create a Job or a bare pod, and first what its claim is made from."""
        node = self.node
        if task.claims:
            templates = f"{dra.API}/namespaces/{node.run.namespace}/resourceclaimtemplates"
            node.cluster.create(templates, jobs.claim_template(node.run, task))
        node.made[task.name] = time.monotonic()
        node.board.expect(task.name)
        manifest = make(node.run, task)
        self.made.append((manifest["kind"], task))
        folder = f"{FOLDERS[manifest['kind']]}/namespaces/{node.run.namespace}"
        made = node.cluster.create(f"{folder}/{manifest['kind'].lower()}s", manifest)
        if (made.get("spec") or {}).get("suspend"):
            self.suspended[task.name] = f"'suspend: true' of its Job{queue_of(made)}"

    def release(self) -> None:
        """Give back the GPUs of these pods now: a Job or pod that has not ended is deleted.

        What cannot be deleted now goes with the run's namespace, which says so if it stays.
        """
        board = self.node.board
        for kind, task in self.made:
            there = board.pod(task.name)
            ended = there is not None and state_of(there).over
            if not task.gpus or ended or board.stopped:
                continue
            with suppress(GpusmithError):
                if kind == "Job":
                    # Before its pod, so that it makes no other one.
                    folder = f"{FOLDERS[kind]}/namespaces/{self.node.run.namespace}"
                    self.node.cluster.delete(f"{folder}/jobs/{task.name}")
                if there is not None or kind == "Pod":
                    self.delete(str(there["metadata"]["name"]) if there is not None else task.name)
        for task in self.tasks:
            board.forget(task.name)

    def delete(self, name: str) -> None:
        """Delete a bare pod."""
        folder = f"{FOLDERS['Pod']}/namespaces/{self.node.run.namespace}"
        self.node.cluster.delete(f"{folder}/pods/{name}", grace_s=1)

    def age(self, task: PodTask) -> Callable[[], float]:
        """Seconds since it was created."""
        return lambda: time.monotonic() - self.node.made[task.name]

    def log(self, pod: Object) -> str:
        """What a pod printed."""
        name, run = pod["metadata"]["name"], self.node.run
        found = self.node.cluster.log(run.namespace, name, jobs.CONTAINER)
        run.keep(f"{self.node.host.name}.{name}", found)
        return found

    def patiently(self, make: Maker, task: PodTask, wait: Callable[[PodTask], T]) -> T:
        """Wait for a Job or pod; one that never ran is made once more, which the check's evidence then says."""
        try:
            return wait(task)
        except NeverRan as error:
            again = replace(task, name=f"{task.name}-again")
            self.made_again[task.name] = error.message
            self.node.say(f"{self.node.host.name}: pod '{task.name}' is made once more: {error.message}")
            self.create(make, again)
            return wait(again)

    def run_pod(self, task: PodTask) -> str:
        """The log of a bare pod, which a policy refuses at once; otherwise as `run_job`."""
        self.create(jobs.pod, task)
        return self.log_of_pod(task)

    def run_job(self, task: PodTask) -> str:
        """The log of a Job, from its creation to its end.

        Raises:
            PodProblem: it did not run, or was ended from outside.
        """
        self.create(jobs.job, task)
        return self.log_of_job(task)

    def run_with_all(self, task: PodTask) -> list[str]:
        """The log of a Job with all GPUs of the workload; of a Job for each GPU, where the kubelet gives no pod so many.

        Raises:
            PodProblem: one did not run, or was ended from outside.
        """
        try:
            return [self.run_job(task)]
        except NotLocal as error:
            if task.gpus == 1:
                raise
            self.notes.append(f"{ONE_EACH}: {error.message}")
        each = [replace(task, name=f"{task.name}-{n}", gpus=1) for n in range(task.gpus)]
        # All of them before one is waited for, so that none gets another's GPU.
        for one in each:
            self.create(jobs.job, one)
        return [self.log_of_job(one) for one in each]

    def log_of_pod(self, task: PodTask) -> str:
        """The log of a bare pod that was created before, at its end; otherwise as `log_of_job`."""
        return self.patiently(jobs.pod, task, self._ended)

    def log_of_job(self, task: PodTask) -> str:
        """The log of a Job that was created before, at its end.

        Raises:
            PodProblem: it did not run, or was ended from outside.
        """
        return self.patiently(jobs.job, task, self._ended)

    def _ended(self, task: PodTask) -> str:
        board, name = self.node.board, task.name
        starts = Starts(
            self.age(task), board.warning, lambda: board.job_warning(name), self.suspended.get(name, "")
        )
        self.started(task, starts, f"pod of '{name}'")
        deadline = Deadline(task.timeout_s + END_GRACE_S)
        try:
            pod = board.wait(f"pod of '{name}' to end", name, Ends(starts), deadline)
        except WaitTimeout as error:
            raise PodProblem(
                f"it did not end in time: {error.message}", "Look at the pod's events."
            ) from error
        log, state = self.log(pod), state_of(pod)
        if state.displaced and result_of(log) is None:
            raise Contended(f"its pod was ended from outside: {state.displaced}", "", log)
        if state.limit and result_of(log) is None:
            raise out_of_memory("its pod", state.limit)
        if state.never_ran:
            raise NeverRan(f"its container was not started: {state.ended}")
        if state.phase == "Failed" and result_of(log) is None:
            raise PodProblem(
                f"its pod failed: {state.ended or 'no reason given'}", "Read its output in the evidence.", log
            )
        return log

    def started(self, task: PodTask, starts: Starts, what: str) -> None:
        """Wait until a pod runs or has ended; pulling its image has a deadline of its own.

        Args:
            task: of the pod.
            starts: judges it.
            what: the pod in words.

        Raises:
            PodProblem: it does not start.
            PullTrouble: its image does not come.
        """
        board, deadline = self.node.board, Deadline(task.pull_s)
        try:
            board.wait(f"{what} to run", task.name, starts, deadline)
        except WaitTimeout as error:
            if board.stopped:
                raise
            if starts.registry:
                raise PullTrouble(f"the image of its pod cannot be had: {starts.registry}") from error
            pulling = self._pulling(task)
            if pulling:
                raise PullTrouble(
                    f"the image of its pod did not come within {task.pull_s:.0f} s: {pulling}"
                ) from error
            raise PodProblem(
                f"it did not start in time: {error.message}", "Look at the pod's events."
            ) from error

    def _pulling(self, task: PodTask) -> str:
        """What the kubelet said when it began to pull; empty if it did not, or is through."""
        there = self.node.board.pod(task.name)
        if there is None:
            return ""
        folder = f"/api/v1/namespaces/{self.node.run.namespace}/events"
        events = self.node.cluster.items(
            folder, fieldSelector=f"involvedObject.name={there['metadata']['name']}"
        )
        said = {str(event.get("reason")): str(event.get("message")) for event in events}
        return "" if "Pulled" in said else said.get("Pulling", "")
