"""Whether pods use GPUs that they did not ask for, past the scheduler."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from gpusmith.checks.cluster import ClusterFacts, need_asked, need_view
from gpusmith.checks.findings import CannotAsk
from gpusmith.checks.register import check
from gpusmith.cluster.tenants import Tenant
from gpusmith.expect import holders
from gpusmith.probe.usage import Holder
from gpusmith.problems import Problem

SHOWN = 5


def _access(facts: ClusterFacts) -> dict[str, Any]:
    """Pods that could, which is meant for many."""
    rows = [row for row in facts.view.tenants if row.reach and not row.system] if facts.view else []
    if not rows:
        return {}
    more = f" and {len(rows) - SHOWN} more" if len(rows) > SHOWN else ""
    named = ", ".join(row.words for row in rows[:SHOWN])
    return {
        "can_use_gpus": [{"pod": row.title, "owner": row.owner, "reach": row.reach} for row in rows],
        "notes": [f"these pods can use GPUs that the scheduler gave to others: {named}{more}"],
    }


@check(
    "cluster.gpu-access",
    place=57,
    proves="no pod has a GPU's device open without a GPU of its own",
    fails_when=(
        "a process of such a pod has '/dev/nvidiaN' open; pods of DaemonSets, of 'kube-*' and of the operands' namespace do not"
        " count, nor do NVIDIA's daemons. Pods that could, since they are privileged or mount '/dev' or '/', are only named"
    ),
    do="ask the pod's owner to request a GPU, and to do without 'privileged' and without the host's '/dev'",
    evidence=_access,
)
def gpu_access(facts: ClusterFacts) -> list[Problem]:
    """Who has a GPU open in a pod that holds none: the scheduler gives that GPU to somebody else."""
    view, record = need_view(facts), facts.machine.record if facts.machine else None
    need_asked(facts)
    if record is None or record.holders is None:
        raise CannotAsk(f"Who has a GPU of node '{view.name}' open is not known; see nodes.processes.")
    # By the API, and by the kubelet's notes, which have resources of other names as well.
    given = {holder.title for holder in view.holders}
    noted = {*record.allocations.devices, *record.allocations.claimants} if record.allocations else set()
    pods = {row.uid: row for row in view.tenants if not row.serves and row.title not in given}
    return [
        _problem(view.name, pods[row.pod_uid], row)
        for row in record.holders
        if row.pod_uid in pods.keys() - noted and row.minors and not holders.is_any(row, holders.WATCHERS)
    ]


def _problem(node: str, pod: Tenant, holder: Holder) -> Problem:
    return Problem(
        f"Node '{node}': pod {pod.words} holds no GPU, and its process {holder.pid} '{holder.command}' (user"
        f" '{holder.user}') has {', '.join(holder.devices)} open since {holders.since(holder)}.",
        "Ask its owner to request a GPU in the limits, and to do without 'privileged' and without the host's '/dev'."
        f" Look at: kubectl -n {pod.namespace} get pod {pod.name} -o yaml",
        {f"process_{holder.pid}": asdict(holder)},
    )
