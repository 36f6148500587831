"""The run's namespace: made before the first pod, removed with everything in it; or what it makes in one that stays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpusmith.cluster.api import MISSING, ApiRefused, Cluster
from gpusmith.errors import GpusmithError, ToolError
from gpusmith.names import RUN_LABEL
from gpusmith.wait import Deadline, Done, NotYet, WaitTimeout, wait_until
from gpusmith.wording import shorten
from gpusmith.workloads import jobs, priority, pull_secrets
from gpusmith.workloads.jobs import Run

ACCOUNT_WAIT_S = 60
GONE_WAIT_S = 90.0
ACCOUNT_TICK_S = 0.3
GONE_TICK_S = 0.5


def make(cluster: Cluster, run: Run, programs: Path, data: Mapping[str, bytes] = jobs.NO_DATA) -> None:
    """Make the run's namespace, if it has one of its own, and put the programs into it.

    Args:
        cluster: the API.
        run: whose namespace it is.
        programs: folder of what runs inside pods.
        data: what they need beside them, by its name.

    Raises:
        ToolError: no pod can be made in it.
    """
    if not run.within:
        priority.ensure(cluster)
        cluster.create("/api/v1/namespaces", jobs.namespace(run))
    try:
        cluster.create(f"/api/v1/namespaces/{run.namespace}/configmaps", jobs.programs(run, programs, data))
    except ApiRefused as error:
        if not run.within or error.status != MISSING:
            raise
        raise missing(run) from error
    pull_secrets.copy(cluster, run)

    def account() -> Done[None] | NotYet:
        # Pods are refused until the controller has made it.
        there = cluster.get(f"/api/v1/namespaces/{run.namespace}/serviceaccounts/default")
        return Done(None) if there else NotYet("it is not there")

    what = f"service account 'default' of namespace '{run.namespace}'"
    try:
        wait_until(what, account, Deadline(ACCOUNT_WAIT_S), tick=ACCOUNT_TICK_S)
    except WaitTimeout as error:
        raise ToolError(error.message, "Is the cluster's controller manager running?") from error


def missing(run: Run) -> ToolError:
    """The namespace that stays is not there."""
    return ToolError(
        f"Namespace '{run.within}' does not exist.",
        f"Make it, with the rights of docs/rbac-any-cluster.yml: kubectl create namespace {run.within}",
    )


def clear(cluster: Cluster, run: Run) -> str:
    """Delete what a run made in a namespace that stays, and wait until it is gone; why it is not, empty if it is."""
    selector = f"{RUN_LABEL}={run.id}"

    def gone() -> Done[None] | NotYet:
        left = []
        # Jobs before their pods, so that they make no other ones.
        for folder, kind in (("/apis/batch/v1", "jobs"), ("/api/v1", "pods"), ("/api/v1", "services")):
            path = f"{folder}/namespaces/{run.within}/{kind}"
            for row in cluster.items(path, labelSelector=selector):
                left.append(f"{kind} '{row['metadata']['name']}'")
                if not row["metadata"].get("deletionTimestamp"):
                    cluster.delete(f"{path}/{row['metadata']['name']}", grace_s=1)
        return NotYet(shorten(left)) if left else Done(None)

    try:
        wait_until(f"what run '{run.id}' made to be gone", gone, Deadline(GONE_WAIT_S), tick=GONE_TICK_S)
        # The last: by it the next run knows of this one.
        cluster.delete(run.home)
    except GpusmithError as error:
        return error.message
    return ""


def remove(cluster: Cluster, name: str) -> str:
    """Delete a namespace and wait until it is gone; why it is not, empty if it is."""
    path = f"/api/v1/namespaces/{name}"

    def gone() -> Done[None] | NotYet:
        there = cluster.get(path)
        if there is None:
            return Done(None)
        status = there.get("status") or {}
        conditions = status.get("conditions") or []
        said = "; ".join(str(row.get("message")) for row in conditions if row.get("status") == "True")
        return NotYet(said or str(status.get("phase")))

    try:
        cluster.delete(path)
        wait_until(f"namespace '{name}' to be gone", gone, Deadline(GONE_WAIT_S), tick=GONE_TICK_S)
    except GpusmithError as error:
        return error.message
    return ""
