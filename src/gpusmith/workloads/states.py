"""What the status and the events of a pod say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpusmith.workloads.jobs import CONTAINER

FREEZE_RACE = "unable to freeze"
"""Why runc does not start a container on cgroup v1 when the kernel did not freeze it in time. Its source (cgroups, fs/freezer.go)
calls that a game of chances; nothing ran, and a pod that may be restarted gets another try from its kubelet."""

REPEATED = ("Error: ErrImagePull", "Error: ImagePullBackOff")
"""Warnings that hide the registry's words, which are in the one before."""
ENDED = ("Succeeded", "Failed")
DEFAULT_SCHEDULER = "default-scheduler"
TOPOLOGY = "TopologyAffinityError"
"""Reason with which a kubelet refuses a pod whose GPUs are not all near one CPU, if its topologyManagerPolicy asks for that."""
LOST_PLACE = ("OutOf", "UnexpectedAdmissionError")
"""How reasons begin for which a kubelet refuses a pod whose devices somebody else got meanwhile."""


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
        displaced: who ended it for somebody else's sake, in the cluster's words; empty if nobody did.
        over: the pod itself has ended, and its GPUs are free; with containers of others it may go on after ours.
        injected: a container of somebody else that does not start, with the reason; empty if there is none.
        limit: of memory, at which our container was ended; empty if it was not.
        held: what keeps it from every scheduler; empty if nothing does.
        steered: what others gave it that decides who places it and where; empty if nothing does.
        locality: why the kubelet's topology manager refuses it, in its words; empty if it does not.
    """

    phase: str
    node: str
    waiting: tuple[str, str]
    unscheduled: str
    ended: str
    never_ran: bool
    displaced: str = ""
    over: bool = False
    injected: str = ""
    limit: str = ""
    held: str = ""
    steered: str = ""
    locality: str = ""


@dataclass(frozen=True)
class Warned:
    """The latest warning among a pod's events."""

    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"


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
        if message in REPEATED:
            continue
        if name not in found or when >= found[name][0]:
            found[name] = when, Warned(str(event.get("reason") or "no reason given"), message)
    return {name: warned for name, (_, warned) in found.items()}


def state_of(pod: Mapping[str, Any]) -> PodState:
    """Read a pod's status."""
    status = pod.get("status") or {}
    never_ran = False
    waiting, ended = ("", ""), [str(status[key]) for key in ("reason", "message") if status.get(key)]
    phase, injected, limit = str(status.get("phase") or "Pending"), "", ""
    over = phase in ENDED
    # The suite's pods have no init containers: all of them are somebody else's.
    for row in status.get("initContainerStatuses") or []:
        injected = _not_started(row, initial=True) or injected
    for row in status.get("containerStatuses") or []:
        state = row.get("state") or {}
        if row.get("name", CONTAINER) != CONTAINER:
            injected = _not_started(row) or injected
            continue
        if "waiting" in state:
            waiting = (str(state["waiting"].get("reason") or ""), str(state["waiting"].get("message") or ""))
        stopped = state.get("terminated") or {}
        if stopped.get("reason") == "StartError" and FREEZE_RACE in str(stopped.get("message")):
            never_ran = True
        if stopped and not over:
            # Containers of others may never end: ours has.
            phase = "Failed" if stopped.get("exitCode") else "Succeeded"
        if stopped.get("reason") == "OOMKilled":
            limit = _memory_limit(pod)
        if stopped.get("exitCode"):
            ended.append(
                f"exit status {stopped['exitCode']} {stopped.get('message') or stopped.get('reason') or ''}".strip()
            )
    unscheduled, reason = "", str(status.get("reason") or "")
    displaced = f"{reason}: {status.get('message')}" if reason.startswith(LOST_PLACE) else ""
    for row in status.get("conditions") or []:
        if (
            row.get("type") == "DisruptionTarget"
            and row.get("status") == "True"
            and row.get("reason") != "TerminationByKubelet"
        ):
            displaced = str(row.get("message") or row.get("reason"))
        if row.get("type") == "PodScheduled" and row.get("status") == "False":
            unscheduled = str(row.get("message") or row.get("reason") or "")
    return PodState(
        phase=phase,
        node=str((pod.get("spec") or {}).get("nodeName") or ""),
        waiting=waiting,
        unscheduled=unscheduled,
        ended=": ".join(ended),
        never_ran=never_ran,
        displaced=displaced,
        over=over,
        injected=injected,
        limit=limit,
        held=_held(pod),
        steered=_steered(pod),
        locality=": ".join(ended) if reason == TOPOLOGY else "",
    )


def _held(pod: Mapping[str, Any]) -> str:
    """The gates of a queue controller."""
    rows = (pod.get("spec") or {}).get("schedulingGates") or []
    gates = ", ".join(f"'{row.get('name')}'" for row in rows)
    return f"scheduling gate {gates}{queue_of(pod)}" if gates else ""


def _steered(pod: Mapping[str, Any]) -> str:
    """Scheduler and node selector of others: the suite's pods have neither."""
    spec = pod.get("spec") or {}
    name, selector = str(spec.get("schedulerName") or DEFAULT_SCHEDULER), spec.get("nodeSelector") or {}
    if name == DEFAULT_SCHEDULER and not selector:
        return ""
    who = "the scheduler" if name == DEFAULT_SCHEDULER else f"scheduler '{name}'"
    keys = ", ".join(f"{key}={value}" for key, value in selector.items())
    selected = f" with node selector '{keys}'" if keys else ""
    return f"{who}{selected}{queue_of(pod)}"


def queue_of(found: Mapping[str, Any]) -> str:
    """The queue that labels or annotations of a pod or Job name, in brackets; every controller has its own key for that."""
    metadata = found.get("metadata") or {}
    marks = {**(metadata.get("annotations") or {}), **(metadata.get("labels") or {})}
    named = ", ".join(f"{key}={value}" for key, value in marks.items() if "queue" in key)
    return f" ({named})" if named else ""


def _not_started(row: Mapping[str, Any], initial: bool = False) -> str:
    """Why a container of somebody else does not start, or keeps ours from it; empty if it does not."""
    state = row.get("state") or {}
    waiting, stopped = state.get("waiting") or {}, state.get("terminated") or {}
    if waiting.get("message"):
        return f"'{row['name']}': {waiting.get('reason')}: {waiting['message']}"
    if initial and stopped.get("exitCode"):
        said = " ".join(str(stopped.get("message") or stopped.get("reason") or "").split())
        return f"'{row['name']}': exit status {stopped['exitCode']} {said}".rstrip()
    return ""


def _memory_limit(pod: Mapping[str, Any]) -> str:
    """The memory limit of our container."""
    rows = [row for row in (pod.get("spec") or {}).get("containers") or [] if row.get("name") == CONTAINER]
    return str(((rows[0].get("resources") or {}).get("limits") or {}).get("memory") or "") if rows else ""


def is_starting(pod: Mapping[str, Any]) -> bool:
    """Placed on a node, and not running there."""
    state = state_of(pod)
    return state.phase == "Pending" and bool(state.node)
