"""Pods of a run, watched by one repeated list for all nodes, and what their states mean."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
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
SLOW_START_S = 15.0
"""From when on the events of placed pods that do not start are read; a status does not carry what a kubelet fails at."""
EVENTS_EVERY_S = 5.0
SANDBOX_S = 75.0
"""How long a node may fail to make a pod's sandbox: some tries of the kubelet, also beside a restart of the runtime."""
REFUSED_S = 30.0
"""How long a Job's pod may be refused: the controller tries again and again, and a webhook may come back."""
REFUSAL = "FailedCreate"
SANDBOX_FAILURE = "FailedCreatePodSandBox"
FREEZE_RACE = "unable to freeze"
"""Why runc does not start a container on cgroup v1 when the kernel did not freeze it in time. Its source (cgroups, fs/freezer.go)
calls that a game of chances; nothing ran, and a pod that may be restarted gets another try from its kubelet."""
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


class NeverRan(PodProblem):
    """The runtime lost a race of the kernel's before the container began, so that nothing was learnt about the node's GPUs."""


@dataclass(frozen=True)
class PodState:
    """What matters of a pod's status.

    Attributes:
        phase: Pending, Running, Succeeded, Failed.
        node: where it is; empty until it is scheduled.
        waiting: reason and message of a container that does not start.
        unscheduled: the scheduler's words; empty if it has none.
        ended: reason, message and exit status of a failed pod.
        never_ran: its container lost the race of FREEZE_RACE.
    """

    phase: str
    node: str
    waiting: tuple[str, str]
    unscheduled: str
    ended: str
    never_ran: bool


@dataclass(frozen=True)
class Warned:
    """The latest warning among a pod's events."""

    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"


Warnings = Callable[[Mapping[str, Any]], Warned | None]
"""The latest warning about a pod; None if there is none, or if the pod is too young to be asked for."""


def no_warnings(_: Mapping[str, Any]) -> None:
    """For who has no events."""


def latest_warnings(events: Iterable[Mapping[str, Any]]) -> dict[str, Warned]:
    """Per name of a pod or Job, what was last warned of it.

    Args:
        events: of core/v1, any order; `lastTimestamp` may be null where `eventTime` is used.
    """
    found: dict[str, tuple[str, Warned]] = {}
    for event in events:
        involved = event.get("involvedObject") or {}
        if event.get("type") != "Warning" or involved.get("kind") not in ("Pod", "Job"):
            continue
        name = str(involved.get("name"))
        when = str(event.get("lastTimestamp") or event.get("eventTime") or "")
        message = " ".join(str(event.get("message") or "").split())[-400:]
        if name not in found or when >= found[name][0]:
            found[name] = when, Warned(str(event.get("reason") or "no reason given"), message)
    return {name: warned for name, (_, warned) in found.items()}


def state_of(pod: Mapping[str, Any]) -> PodState:
    """Read a pod's status."""
    status = pod.get("status") or {}
    never_ran = False
    waiting, ended = ("", ""), [str(status[key]) for key in ("reason", "message") if status.get(key)]
    for row in status.get("containerStatuses") or []:
        state = row.get("state") or {}
        if "waiting" in state:
            waiting = (str(state["waiting"].get("reason") or ""), str(state["waiting"].get("message") or ""))
        stopped = state.get("terminated") or {}
        if stopped.get("reason") == "StartError" and FREEZE_RACE in str(stopped.get("message")):
            never_ran = True
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
        never_ran=never_ran,
    )


class Board:
    """The latest list of a namespace's pods, kept by one thread, read by many.

    Args:
        cluster: the API.
        namespace: of the run.
    """

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._folder = f"/api/v1/namespaces/{namespace}"
        self._news = threading.Condition()
        self._pods: dict[str, Object] = {}
        self._warnings: dict[str, Warned] = {}
        self._asked_events = 0.0
        self._expected: dict[str, float] = {}
        self._placed: dict[str, float] = {}
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
                pods = {self._key(pod): pod for pod in self._cluster.items(f"{self._folder}/pods")}
                self._read_events(pods)
                trouble, failing_since = None, None
            except ToolError as error:
                failing_since = failing_since or time.monotonic()
                pods, trouble = self._pods, error if time.monotonic() - failing_since > TROUBLE_S else None
            with self._news:
                self._pods, self._trouble = pods, trouble
                self._news.notify_all()
            self._stop.wait(TICK_S)

    def _read_events(self, pods: Mapping[str, Object]) -> None:
        """One list for all pods, and only while one of them is slow to start, or not there."""
        now = time.monotonic()
        for name in set(self._expected) & set(pods):
            del self._expected[name]
        starting = {key for key, pod in pods.items() if _is_starting(pod)}
        self._placed = {key: self._placed.get(key, now) for key in starting}
        waiting = [*self._placed.values(), *list(self._expected.values())]
        slow = any(now - since > SLOW_START_S for since in waiting)
        if slow and now - self._asked_events > EVENTS_EVERY_S:
            self._asked_events = now
            events = self._cluster.items(f"{self._folder}/events", fieldSelector="type=Warning")
            self._warnings = latest_warnings(events)

    def expect(self, workload: str) -> None:
        """A workload was created, so that its pod is missed if it does not come."""
        self._expected[workload] = time.monotonic()

    def refusal(self, workload: str) -> Warned | None:
        """What was last warned of a Job whose pod does not come."""
        return self._warnings.get(workload)

    def pod(self, workload: str) -> Object | None:
        """One workload's pod as it was last seen."""
        return self._pods.get(workload)

    def warning(self, pod: Mapping[str, Any]) -> Warned | None:
        """What was last warned of a pod that is slow to start."""
        return self._warnings.get(str(pod["metadata"]["name"]))

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


def _is_starting(pod: Object) -> bool:
    """Placed on a node, and not running there."""
    state = state_of(pod)
    return state.phase == "Pending" and bool(state.node)


def deleted(pod: str = "its pod") -> PodProblem:
    """What to say of a pod that was there."""
    return PodProblem(
        f"{pod} was deleted by somebody else",
        "Look for what removes pods from this node: a drain, an eviction, a descheduler.",
    )


def starts(
    first_seen: Callable[[], float],
    warning: Warnings = no_warnings,
    refusal: Callable[[], Warned | None] = lambda: None,
) -> Callable[[Object | None], Done[Object] | NotYet]:
    """A check: the pod runs or has ended; hopeless ones are given up early.

    Args:
        first_seen: seconds since the pod was made.
        warning: of the pod's events.
        refusal: of the events of the Job whose pod is not there.
    """
    was_there = False

    def check(pod: Object | None) -> Done[Object] | NotYet:
        nonlocal was_there
        if pod is None and was_there:
            raise deleted()
        if pod is None:
            refused = refusal()
            if refused and refused.reason == REFUSAL and first_seen() > REFUSED_S:
                raise PodProblem(
                    f"no pod can be made for it: {refused}",
                    "Look at admission webhooks and policies, and at quotas of the namespace's kind:"
                    " kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations,validatingadmissionpolicies",
                )
            return NotYet(f"no pod yet{f'; {refused}' if refused else ''}")
        was_there = True
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
        warned = warning(pod) if _is_starting(pod) else None
        if warned and warned.reason == SANDBOX_FAILURE and first_seen() > SANDBOX_S:
            raise PodProblem(
                f"node '{state.node}' cannot make a sandbox for its pod: {warned}",
                f"Read 'journalctl -u containerd -u kubelet' on '{state.node}'; look at its runtime and its pod network.",
            )
        seen = state.unscheduled or " ".join(state.waiting).strip() or "no reason given"
        return NotYet(f"{state.phase}, {seen}{f'; {warned}' if warned else ''}")

    return check


def ends(
    first_seen: Callable[[], float],
    warning: Warnings = no_warnings,
    refusal: Callable[[], Warned | None] = lambda: None,
) -> Callable[[Object | None], Done[Object] | NotYet]:
    """A check: the pod has ended; arguments as of starts()."""
    begins = starts(first_seen, warning, refusal)

    def check(pod: Object | None) -> Done[Object] | NotYet:
        begun = begins(pod)
        if isinstance(begun, NotYet):
            return begun
        phase = state_of(begun.value).phase
        return begun if phase in ("Succeeded", "Failed") else NotYet(phase)

    return check
