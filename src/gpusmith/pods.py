"""Pods of a run, watched by one repeated list for all nodes, and what their states mean."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from gpusmith.errors import GpusmithError, ToolError
from gpusmith.kube import Cluster, Object
from gpusmith.wait import Deadline, Done, NotYet, WaitTimeout

T = TypeVar("T")

TICK_S = 0.5
TROUBLE_S = 30.0
"""How long lists may fail before waiting for pods is given up."""
UNSCHEDULABLE_S = 45.0
"""How long a pod may wait for GPUs that were free a moment ago."""
HOPELESS = (
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "ImagePullBackOff",
)


class PodProblem(GpusmithError):  # noqa: N818 - it is about the system under test
    """A pod cannot do what it was made for.

    Attributes:
        log: what it printed.
    """

    def __init__(self, message: str, hint: str = "", log: str = "") -> None:
        super().__init__(message, hint)
        self.log = log


@dataclass(frozen=True)
class PodState:
    """What matters of a pod's status.

    Attributes:
        phase: Pending, Running, Succeeded, Failed.
        node: where it is; empty until it is scheduled.
        waiting: reason and message of a container that does not start.
        unscheduled: the scheduler's words; empty if it has none.
        ended: reason, message and exit status of a failed pod.
    """

    phase: str
    node: str
    waiting: tuple[str, str]
    unscheduled: str
    ended: str


def state_of(pod: Mapping[str, Any]) -> PodState:
    """Read a pod's status."""
    status = pod.get("status") or {}
    waiting, ended = ("", ""), [str(status[key]) for key in ("reason", "message") if status.get(key)]
    for row in status.get("containerStatuses") or []:
        state = row.get("state") or {}
        if "waiting" in state:
            waiting = (str(state["waiting"].get("reason") or ""), str(state["waiting"].get("message") or ""))
        stopped = state.get("terminated") or {}
        if stopped.get("exitCode"):
            ended.append(
                f"exit status {stopped['exitCode']} {stopped.get('message') or stopped.get('reason') or ''}".strip()
            )
    unscheduled = ""
    for row in status.get("conditions") or []:
        if row.get("type") == "PodScheduled" and row.get("status") == "False":
            unscheduled = str(row.get("message") or row.get("reason") or "")
    return PodState(
        phase=str(status.get("phase") or "Pending"),
        node=str((pod.get("spec") or {}).get("nodeName") or ""),
        waiting=waiting,
        unscheduled=unscheduled,
        ended=": ".join(ended),
    )


class Board:
    """The latest list of a namespace's pods, kept by one thread, read by many.

    Args:
        cluster: the API.
        namespace: of the run.
    """

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._news = threading.Condition()
        self._pods: dict[str, Object] = {}
        self._trouble: ToolError | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="gpusmith-pods", daemon=True)

    def __enter__(self) -> Board:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._thread.join(timeout=60)

    def stop(self) -> None:
        """End the watching and everybody's waiting."""
        self._stop.set()
        with self._news:
            self._news.notify_all()

    def _keep(self) -> None:
        failing_since: float | None = None
        while not self._stop.is_set():
            try:
                pods = {self._key(pod): pod for pod in self._cluster.items(self._path)}
                trouble, failing_since = None, None
            except ToolError as error:
                failing_since = failing_since or time.monotonic()
                pods, trouble = self._pods, error if time.monotonic() - failing_since > TROUBLE_S else None
            with self._news:
                self._pods, self._trouble = pods, trouble
                self._news.notify_all()
            self._stop.wait(TICK_S)

    @staticmethod
    def _key(pod: Object) -> str:
        return str(
            (pod["metadata"].get("labels") or {}).get("gpusmith.io/workload") or pod["metadata"]["name"]
        )

    def wait(
        self, what: str, workload: str, check: Callable[[Object | None], Done[T] | NotYet], deadline: Deadline
    ) -> T:
        """Look at one workload's pod whenever there is a new list.

        Args:
            what: the condition in words.
            workload: its name.
            check: gets the pod, None while there is none; raises what makes waiting pointless.
            deadline: when to stop.

        Raises:
            WaitTimeout: with what was seen last.
            ToolError: the API server no longer answers.
        """
        with self._news:
            while True:
                if self._trouble is not None:
                    raise self._trouble
                outcome = check(self._pods.get(workload))
                if isinstance(outcome, Done):
                    return outcome.value
                if deadline.passed() or self._stop.is_set():
                    raise WaitTimeout(
                        f"Waited {deadline.seconds:.0f} s for {what}; last seen: {outcome.seen}."
                    )
                self._news.wait(timeout=min(2.0, deadline.remaining() + 0.01))


def starts(first_seen: Callable[[], float]) -> Callable[[Object | None], Done[Object] | NotYet]:
    """A check: the pod runs or has ended; hopeless ones are given up early.

    Args:
        first_seen: seconds since the pod was made.
    """

    def check(pod: Object | None) -> Done[Object] | NotYet:
        if pod is None:
            return NotYet("no pod yet")
        state = state_of(pod)
        if state.phase in ("Running", "Succeeded", "Failed"):
            return Done(pod)
        reason, message = state.waiting
        if reason in HOPELESS:
            raise PodProblem(
                f"its container does not start: {reason}: {message}",
                "Look at the image's name and at the node's registry.",
            )
        if state.unscheduled and first_seen() > UNSCHEDULABLE_S:
            raise PodProblem(
                f"the scheduler does not place it: {state.unscheduled}",
                "Compare allocatable GPUs with the pods of the node.",
            )
        return NotYet(
            f"{state.phase}, {state.unscheduled or ' '.join(state.waiting).strip() or 'no reason given'}"
        )

    return check


def ends(first_seen: Callable[[], float]) -> Callable[[Object | None], Done[Object] | NotYet]:
    """A check: the pod has ended."""
    begins = starts(first_seen)

    def check(pod: Object | None) -> Done[Object] | NotYet:
        begun = begins(pod)
        if isinstance(begun, NotYet):
            return begun
        phase = state_of(begun.value).phase
        return begun if phase in ("Succeeded", "Failed") else NotYet(phase)

    return check
