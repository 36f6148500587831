"""Doing what was decided: marks and replicas of owners, and Events by which their people know of it."""

from __future__ import annotations

from typing import Any

from gpusmith.cluster.api import CONFLICT, MISSING, ApiRefused, Cluster, Object
from gpusmith.names import IDLE_SINCE, KEEP, MANAGER, RECLAIM_MANAGER, RECLAIMED
from gpusmith.reclaim.evidence import minutes
from gpusmith.reclaim.owners import Owner
from gpusmith.reclaim.plan import Asked, Decision, Does, clock

GONE = (CONFLICT, MISSING)
"""Statuses of the answer for an object that is another one than was read."""
CHANGED = "somebody changed it meanwhile"


def do(cluster: Cluster, decision: Decision, asked: Asked, now: float) -> str:
    """Do it, unless the owner has changed since it was read; then says so, and empty if it was done.

    Args:
        cluster: the API.
        decision: something else than to leave it alone.
        asked: of the run.
        now: seconds since 1970, by Prometheus.

    Raises:
        ToolError: the cluster does not answer, or refuses.
    """
    owner = decision.owner
    if decision.does is Does.WARN:
        # Without the mark nothing follows; without the Event nobody knows of it.
        _tell(cluster, owner, "GpuIdle", warning(owner, asked, now), now)
    try:
        cluster.patch(owner.path, patch(decision, now), RECLAIM_MANAGER)
    except ApiRefused as error:
        if error.status not in GONE:
            raise
        return CHANGED
    if decision.does is Does.ACT:
        _tell(
            cluster, owner, "GpuReclaimed", f"Its GPUs were idle. To bring it back: {bring_back(owner)}", now
        )
    return ""


def patch(decision: Decision, now: float) -> Object:
    """What changes: one merge patch, of the object as it was read."""
    owner, acts = decision.owner, decision.does is Does.ACT
    marks: dict[str, str | None] = {IDLE_SINCE: clock(now) if decision.does is Does.WARN else None}
    if acts:
        marks[RECLAIMED] = str(owner.replicas)
    metadata = {"resourceVersion": owner.about["metadata"]["resourceVersion"], "annotations": marks}
    stop: dict[str, Any] = {"suspend": True} if owner.kind == "Job" else {"replicas": 0}
    return {"metadata": metadata, **({"spec": stop} if acts else {})}


def bring_back(owner: Owner) -> str:
    """The command."""
    what = f"{owner.kind.lower()}/{owner.name}"
    if owner.kind == "Job":
        return (
            f"""kubectl -n {owner.namespace} patch {what} --type=merge -p '{{"spec":{{"suspend":false}}}}'"""
        )
    return f"kubectl -n {owner.namespace} scale {what} --replicas={owner.replicas}"


def warning(owner: Owner, asked: Asked, now: float) -> str:
    """What the people of a namespace read."""
    stop = "suspends it" if owner.kind == "Job" else "scales it to 0"
    keep = f"kubectl -n {owner.namespace} annotate {owner.kind.lower()}/{owner.name} {KEEP}=true"
    return (
        f"Its pods hold {owner.held} and have not used them for {minutes(asked.idle_s)}. If that goes on, gpusmith {stop}"
        f" from {clock(now + asked.grace_s)} on. To keep it: {keep}"
    )


def _tell(cluster: Cluster, owner: Owner, reason: str, message: str, now: float) -> None:
    about = owner.about["metadata"]
    when = clock(now)
    cluster.create(
        f"/api/v1/namespaces/{owner.namespace}/events",
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{RECLAIM_MANAGER}-", "namespace": owner.namespace},
            "involvedObject": {
                "apiVersion": "batch/v1" if owner.kind == "Job" else "apps/v1",
                "kind": owner.kind,
                "namespace": owner.namespace,
                "name": owner.name,
                "uid": about["uid"],
                "resourceVersion": about["resourceVersion"],
            },
            "type": "Warning",
            "reason": reason,
            "message": message,
            "source": {"component": MANAGER},
            "firstTimestamp": when,
            "lastTimestamp": when,
            "count": 1,
        },
    )
