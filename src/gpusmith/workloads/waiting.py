"""What is waited for of a pod, and what makes waiting for it pointless."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gpusmith.cluster import hints
from gpusmith.cluster.api import Object
from gpusmith.errors import GpusmithError, ToolError
from gpusmith.names import PURPOSE, PURPOSE_LABEL
from gpusmith.wait import Done, NotYet
from gpusmith.workloads.states import PodState, Warned, is_starting, state_of

UNSCHEDULABLE_S = 45.0
"""How long a pod may wait for GPUs that were free a moment ago."""
SANDBOX_S = 75.0
"""How long a node may fail to make a pod's sandbox: some tries of the kubelet, also beside a restart of the runtime."""
REFUSED_S = 30.0
"""How long a Job's pod may be refused: the controller tries again and again, and a webhook may come back."""
CREATION_FAILURE = "FailedCreate"
SANDBOX_FAILURE = "FailedCreatePodSandBox"
HOPELESS = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
PULL_RETRIES_S = 60.0
"""How long a registry may fail to give an image: some tries of the kubelet, since it may have too much to do for a moment."""
PULL_FAILURES = ("ErrImagePull", "ImagePullBackOff", "ImageInspectError", "RegistryUnavailable")
PULL_HOPELESS = ("InvalidImageName", "ErrImageNeverPull", "SignatureValidationFailed")


class PodProblem(GpusmithError):  # noqa: N818 - it is about the system under test
    """A pod cannot do what it was made for.

    Attributes:
        log: what it printed.
    """

    def __init__(self, message: str, hint: str = "", log: str = "") -> None:
        super().__init__(message, hint)
        self.log = log


class Contended(PodProblem):
    """A problem that other users of the node may have caused; the check finds out.

    Attributes:
        theirs: if they did not, it is the doing of others all the same, and no failure of the node.
    """

    def __init__(self, message: str, hint: str = "", log: str = "", theirs: bool = False) -> None:
        super().__init__(message, hint, log)
        self.theirs = theirs


class PullTrouble(ToolError):  # noqa: N818
    """An image cannot be had: the registry's trouble, which says nothing about GPUs."""

    def __init__(self, message: str) -> None:
        super().__init__(
            message,
            f"{hints.of_registry(message)} Look at the image's name in the inventory ('validation_images'), at the registry,"
            " and at the node's way to it; a large image needs a larger 'validation_timeout_pull_s'.".lstrip(),
        )


class Interfered(ToolError):  # noqa: N818
    """What others make of our pods keeps them from doing their work, which says nothing about GPUs."""


class NotLocal(Interfered):
    """The kubelet's topology manager refuses a pod: its GPUs are not all near one CPU."""

    def __init__(self, said: str) -> None:
        super().__init__(
            f"the kubelet refuses its pod: {said}",
            "Its 'topologyManagerPolicy' finds no GPU near CPUs and memory that the pod could have: look at what other pods hold"
            " of them, and at 'validation_pod_limits', or set the policy to 'best-effort' for the time of the validation.",
        )


class NeverRan(PodProblem):
    """A race in the kernel kept the container from starting, so the node's GPUs were not tested."""

    def __init__(self, message: str) -> None:
        super().__init__(
            message,
            "Run the suite again when the node has less to do; cgroup v2 does not have this race.",
        )


Warnings = Callable[[Mapping[str, Any]], Warned | None]
"""The latest warning about a pod; None if there is none, or if the pod is too young to be asked for."""


def no_warnings(_: Mapping[str, Any]) -> None:
    """For who has no events."""


def no_job_warning() -> None:
    """For a pod that no controller makes."""


def deleted(pod: str = "its pod") -> Contended:
    """What to say of a pod that was there."""
    return Contended(
        f"{pod} was deleted by somebody else",
        "Look for what removes pods from this node: a drain, an eviction, a descheduler.",
    )


def out_of_memory(pod: str, limit: str) -> Interfered:
    """What to say of a pod that was ended at a limit of memory."""
    return Interfered(
        f"{pod} was ended at a memory limit of {limit}",
        "A LimitRange or an admission policy of the cluster has set it, or 'validation_pod_limits': set that to more.",
    )


def _injected(state: PodState) -> Interfered:
    """What to say of a container of somebody else that keeps ours from its work."""
    return Interfered(
        f"container {state.injected}, which somebody injects into its pod, does not start",
        "Have the injection leave the suite's pods alone, by a label or annotation that it knows ('validation_labels',"
        " 'validation_annotations').",
    )


QUEUES = (
    "Give it the label of a queue that admits it at once ('validation_labels'), or have whoever set that leave namespaces with"
    f" label '{PURPOSE_LABEL}={PURPOSE}' alone."
)


def queued(held: str) -> Interfered:
    """What to say of a pod or Job that a queue controller keeps to itself."""
    return Interfered(
        f"its pod is held back by {held}, which a queue controller or webhook of the cluster set", QUEUES
    )


@dataclass
class Starts:
    """Whether the pod runs or has ended; a hopeless one is given up early.

    Attributes:
        age: seconds since the pod was made.
        warning: of the pod's events.
        job_warning: of the events of the Job whose pod is not there.
        suspended: how the Job was suspended as it was made; empty if it was not.
        was_there: the pod was seen before.
        pull_failed_at: age at which the image was first seen not to be had.
        registry: what the registry said last.
    """

    age: Callable[[], float]
    warning: Warnings = no_warnings
    job_warning: Callable[[], Warned | None] = no_job_warning
    suspended: str = ""
    was_there: bool = False
    pull_failed_at: float | None = None
    registry: str = ""

    def __call__(self, pod: Object | None) -> Done[Object] | NotYet:
        """Look at the pod once.

        Raises:
            PodProblem: it will not start.
            PullTrouble: its image cannot be had.
            Interfered: what others make of it keeps it from starting.
        """
        if pod is None:
            return self._missing()
        self.was_there = True
        state = state_of(pod)
        if state.phase == "Failed" and state.injected and state.waiting[0]:
            # Ours never ran.
            raise _injected(state)
        if state.locality:
            raise NotLocal(state.locality)
        if state.phase in ("Running", "Succeeded", "Failed"):
            return Done(pod)
        warned = self.warning(pod) if is_starting(pod) else None
        self._pulls(state, warned)
        self._give_up(state, warned)
        seen = state.unscheduled or " ".join(state.waiting).strip() or "no reason given"
        return NotYet(f"{state.phase}, {seen}{f'; {warned}' if warned else ''}")

    def _missing(self) -> NotYet:
        if self.was_there:
            raise deleted()
        refused = self.job_warning()
        if refused and refused.reason == CREATION_FAILURE and self.age() > REFUSED_S:
            raise Interfered(
                f"no pod can be made for it: {refused}",
                "Give it what a policy asks for ('validation_labels', 'validation_annotations', 'validation_pod_limits'); look at"
                " admission webhooks and policies, and at quotas of the namespace's kind:"
                " kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations,validatingadmissionpolicies",
            )
        if self.suspended and self.age() > UNSCHEDULABLE_S:
            raise queued(self.suspended)
        return NotYet(f"no pod yet{f'; {refused}' if refused else ''}")

    def _pulls(self, state: PodState, warned: Warned | None) -> None:
        """Remember what the registry says; raise if it goes on saying so."""
        reason, message = state.waiting
        if reason not in (*PULL_FAILURES, *PULL_HOPELESS):
            return
        # While a kubelet pauses, its own words come first, or stand alone.
        said = message.partition(": ErrImagePull: ")[2] or (message if reason != "ImagePullBackOff" else "")
        event = warned.message if warned and warned.reason == "Failed" else ""
        self.registry = said or event or self.registry or message
        if self.pull_failed_at is None:
            self.pull_failed_at = self.age()
        if reason in PULL_HOPELESS or self.age() - self.pull_failed_at > PULL_RETRIES_S:
            raise PullTrouble(f"the image of its pod cannot be had: {reason}: {self.registry}")

    def _give_up(self, state: PodState, warned: Warned | None) -> None:
        """Raise if the pod is hopeless."""
        reason, message = state.waiting
        if reason in HOPELESS:
            raise PodProblem(
                f"its container does not start: {reason}: {message}",
                "Look at the pod's events and at the runtime of the node.",
            )
        if state.injected and self.age() > PULL_RETRIES_S:
            raise _injected(state)
        waits = not state.node and self.age() > UNSCHEDULABLE_S
        if waits and state.held:
            raise queued(state.held)
        if waits and state.steered:
            raise Contended(
                f"{state.steered}, which others gave it, does not place it: {state.unscheduled or 'no reason given'}",
                QUEUES,
                theirs=True,
            )
        if waits and state.unscheduled:
            raise Contended(
                f"the scheduler does not place it: {state.unscheduled}",
                "Compare allocatable GPUs with the pods of the node.",
            )
        if warned and warned.reason == SANDBOX_FAILURE and self.age() > SANDBOX_S:
            raise PodProblem(
                f"node '{state.node}' cannot make a sandbox for its pod: {warned}",
                f"Read 'journalctl -u containerd -u kubelet' on '{state.node}'; look at its runtime and its pod network.",
            )


@dataclass
class Ends:
    """Whether the pod has ended.

    Attributes:
        starts: judges it until it runs.
    """

    starts: Starts

    def __call__(self, pod: Object | None) -> Done[Object] | NotYet:
        """Look at the pod once.

        Raises:
            PodProblem: it will not start.
        """
        begun = self.starts(pod)
        if isinstance(begun, NotYet):
            return begun
        phase = state_of(begun.value).phase
        return begun if phase in ("Succeeded", "Failed") else NotYet(phase)
