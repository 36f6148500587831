"""What made the pods that hold GPUs, and whether it may be touched."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpusmith.cluster.api import Cluster, Object
from gpusmith.cluster.dra import NO_CLAIMS
from gpusmith.cluster.holders import finished, holders
from gpusmith.cluster.views import NODES, PODS
from gpusmith.names import GPU_RESOURCE, IDLE_SINCE, KEEP, RECLAIM_ALLOWED, RECLAIM_LABEL, SIMULATED_LABEL
from gpusmith.upgrade.disruption import covers
from gpusmith.wanted import layouts

LISTS = {
    "Deployment": "/apis/apps/v1/deployments",
    "StatefulSet": "/apis/apps/v1/statefulsets",
    "ReplicaSet": "/apis/apps/v1/replicasets",
    "Job": "/apis/batch/v1/jobs",
}
"""What may be touched, by kind."""
BUDGETS = "/apis/policy/v1/poddisruptionbudgets"
SCALERS = "/apis/autoscaling/v2/horizontalpodautoscalers"
NAMESPACES = "/api/v1/namespaces"
QUEUE = "kueue.x-k8s.io/queue-name"
"""Label of what Kueue manages (kubernetes-sigs/kueue, pkg/controller/constants/constants.go)."""
NONE = ("0", "0%")


@dataclass(frozen=True)
class Pod:
    """A pod that holds GPUs.

    Attributes:
        name: of the pod.
        node: on which it runs; empty while it waits for one.
        gpus: that it holds, or waits for.
        started: seconds since 1970, when its containers could begin; None if they could not yet.
        strange: why nobody can tell whether it uses them; empty if one can.
        simulated: whether they are simulated.
    """

    name: str
    node: str
    gpus: int
    started: float | None = None
    strange: str = ""
    simulated: bool = False


@dataclass(frozen=True)
class Owner:
    """What made pods that hold GPUs; a bare pod is its own.

    Attributes:
        kind: of the object.
        namespace: of the object.
        name: of the object.
        pods: those that hold GPUs.
        about: the object itself, as it was read; empty if it is of no kind that may be touched.
        keep: why it is to be left alone by its owner's word; empty if it is not.
        barred: why it must not be touched whatever its pods do; empty if it may.
    """

    kind: str
    namespace: str
    name: str
    pods: tuple[Pod, ...]
    about: Object = field(default_factory=dict, repr=False)
    keep: str = ""
    barred: str = ""

    @property
    def title(self) -> str:
        """As kubectl calls it, with its namespace."""
        return f"{self.namespace} {self.kind.lower()}/{self.name}"

    @property
    def gpus(self) -> int:
        """That its pods hold."""
        return sum(pod.gpus for pod in self.pods if pod.node)

    @property
    def held(self) -> str:
        """The same in words."""
        return f"{self.gpus} GPU{'' if self.gpus == 1 else 's'}"

    @property
    def path(self) -> str:
        """Where the API server has it."""
        folder, _, plural = LISTS[self.kind].rpartition("/")
        return f"{folder}/namespaces/{self.namespace}/{plural}/{self.name}"

    @property
    def since(self) -> float | None:
        """Since when it is warned, in seconds since 1970; None if it is not."""
        return moment(_annotations(self.about).get(IDLE_SINCE, "")) if self.about else None

    @property
    def warned(self) -> bool:
        """Whether it has the mark, whatever that says."""
        return bool(self.about) and IDLE_SINCE in _annotations(self.about)

    @property
    def replicas(self) -> int:
        """That it is to have; of a Job, pods at the same time."""
        spec = self.about.get("spec") or {}
        return int(spec.get("parallelism" if self.kind == "Job" else "replicas", 1))


@dataclass(frozen=True)
class Facts:
    """Lists of a cluster, of namespaces that allow it.

    Attributes:
        pods: all.
        nodes: of the cluster.
        made: Deployments, StatefulSets, ReplicaSets and Jobs.
        scalers: HorizontalPodAutoscalers.
        budgets: PodDisruptionBudgets.
    """

    pods: Sequence[Object] = ()
    nodes: Sequence[Object] = ()
    made: Sequence[Object] = ()
    scalers: Sequence[Object] = ()
    budgets: Sequence[Object] = ()


def allowed(cluster: Cluster) -> list[str]:
    """Namespaces whose owners allow it."""
    rows = cluster.items(NAMESPACES, labelSelector=f"{RECLAIM_LABEL}={RECLAIM_ALLOWED}")
    return sorted(row["metadata"]["name"] for row in rows)


def read(cluster: Cluster, namespaces: Collection[str]) -> Facts:
    """One list of each kind.

    Raises:
        ToolError: the cluster does not answer, or refuses.
    """

    def listed(path: str) -> list[Object]:
        return cluster.items(path, lambda row: row if row["metadata"]["namespace"] in namespaces else None)

    # Items of lists do not say of which kind they are.
    made = [{**row, "kind": kind} for kind, path in LISTS.items() for row in listed(path)]
    return Facts(listed(PODS), cluster.items(NODES), made, listed(SCALERS), listed(BUDGETS))


def owners(facts: Facts, now: float, jobs: bool) -> list[Owner]:
    """All that made pods which hold GPUs, by namespace and name.

    Args:
        facts: of the cluster.
        now: seconds since 1970.
        jobs: whether Jobs may be suspended.
    """
    known = {row["metadata"]["uid"]: row for row in facts.made}
    nodes = {row["metadata"]["name"]: row for row in facts.nodes}
    found: dict[tuple[str, str, str], list[tuple[Object, Pod]]] = {}
    chains: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for pod in facts.pods:
        if (seen := _pod(pod, nodes)) is None:
            continue
        chain = _chain(pod, known)
        top = chain[-1]
        key = (pod["metadata"]["namespace"], str(top["kind"]), str(_name(top)))
        found.setdefault(key, []).append((pod, seen))
        chains.setdefault(key, []).extend(chain)
    return [
        _owner(key, found[key], chains[key], facts, now, jobs)
        for key in sorted(found, key=lambda key: (key[0], key[2]))
        # Who waits for all of them holds none.
        if any(pod.node for _, pod in found[key])
    ]


def _pod(pod: Object, nodes: Mapping[str, Object]) -> Pod | None:
    """A pod that holds GPUs, or devices by claims, or waits for them; None for others."""
    spec, status, metadata = pod.get("spec") or {}, pod.get("status") or {}, pod["metadata"]
    held = holders([pod], NO_CLAIMS)
    claims = bool(spec.get("resourceClaims") or status.get("extendedResourceClaimStatus"))
    if finished(pod) or not (held or claims):
        return None
    counts = held[0].counts if held else {}
    node = str(spec.get("nodeName") or "")
    labels = nodes.get(node, {"metadata": {}})["metadata"].get("labels") or {}
    if metadata.get("deletionTimestamp"):
        strange = "is being deleted"
    elif claims:
        strange = "has devices by ResourceClaims, of which the metrics do not tell"
    elif set(counts) != {GPU_RESOURCE} or layouts.of_labels(labels).shared or layouts.told(labels) != 1:
        strange = "has parts or shares of GPUs, and the metrics do not tell whose work they do"
    else:
        strange = ""
    simulated = labels.get(SIMULATED_LABEL) == "true"
    return Pod(metadata["name"], node, sum(counts.values()), _started(pod), strange, simulated)


def _started(pod: Object) -> float | None:
    """When its containers could begin: what init containers load before that takes time in which GPUs do nothing."""
    status = pod.get("status") or {}
    ready: Mapping[str, Any] = next(
        (row for row in status.get("conditions") or () if row["type"] == "Initialized"), {}
    )
    if status.get("phase") != "Running" or ready.get("status") != "True":
        return None
    found = [moment(str(text)) for text in (status.get("startTime"), ready.get("lastTransitionTime")) if text]
    return max((each for each in found if each is not None), default=None)


def _chain(pod: Object, known: Mapping[str, Object]) -> list[Mapping[str, Any]]:
    """The pod and what made it, up to what nothing made; the last may be a reference to what is not known."""
    chain: list[Mapping[str, Any]] = [{**pod, "kind": "Pod"}]
    while (made := _made_by(chain[-1])) is not None:
        there = known.get(str(made.get("uid")))
        chain.append(there or made)
        if there is None:
            break
    return chain


def _made_by(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    references = row["metadata"].get("ownerReferences") or []
    return next(
        (each for each in references if each.get("controller")), references[0] if references else None
    )


def _name(row: Mapping[str, Any]) -> str:
    return str(row["metadata"]["name"] if "metadata" in row else row["name"])


def _owner(
    key: tuple[str, str, str],
    rows: Sequence[tuple[Object, Pod]],
    chain: Iterable[Mapping[str, Any]],
    facts: Facts,
    now: float,
    jobs: bool,
) -> Owner:
    namespace, kind, name = key
    links = list(chain)
    pods = [pod for pod, _ in rows]
    known = kind in LISTS and all(
        "metadata" in row for row in links if (row["kind"], _name(row)) == (kind, name)
    )
    about = (
        next((dict(row) for row in links if (row["kind"], _name(row)) == (kind, name)), {}) if known else {}
    )
    # A ReplicaSet has a copy of its Deployment's annotations, which nobody takes away with those.
    asked = [{**pod, "kind": "Pod"} for pod in pods] + ([about] if about else [])
    kept = next((said for row in asked if (said := _kept(row, now))), "")
    barred = _barred(kind, namespace, name, pods, about, facts, jobs) if known else _unknown(kind, name)
    return Owner(kind, namespace, name, tuple(seen for _, seen in rows), about, kept, barred)


def _unknown(kind: str, name: str) -> str:
    if kind == "Pod":
        return "nothing would bring the pod back: its owner has to end it"
    return f"gpusmith does not know how to stop a {kind}: the owner of '{name}' has to"


def _barred(
    kind: str, namespace: str, name: str, pods: Iterable[Object], about: Object, facts: Facts, jobs: bool
) -> str:
    """Why one of the kinds that may be touched must not be."""
    if kind == "Job" and not jobs:
        return "Jobs are left alone, since 'gpu_reclaim_jobs' is false"
    if kind == "Job" and QUEUE in (about["metadata"].get("labels") or {}):
        return "Kueue suspends and resumes it"
    for row in facts.scalers:
        target = row["spec"]["scaleTargetRef"]
        if row["metadata"]["namespace"] == namespace and (target["kind"], target["name"]) == (kind, name):
            return f"HorizontalPodAutoscaler '{row['metadata']['name']}' sets its replicas"
    for row in facts.budgets:
        if _guards(row["spec"]) and any(covers(row, pod["metadata"]) for pod in pods):
            return f"PodDisruptionBudget '{row['metadata']['name']}' says that pods must stay"
    return ""


def _guards(spec: Mapping[str, Any]) -> bool:
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    return (least is not None and str(least) not in NONE) or (most is not None and str(most) in NONE)


def _kept(row: Mapping[str, Any], now: float) -> str:
    """What an annotation says that keeps it; empty if there is none, or its time is over."""
    value = _annotations(row).get(KEEP, "").strip()
    if value.lower() in ("", "false"):
        return ""
    until = moment(value, end=True)
    if until is not None and until < now:
        return ""
    # What cannot be read may be a date that somebody mistyped.
    return f"{row['kind']} '{_name(row)}' has '{KEEP}: {value}'"


def _annotations(row: Mapping[str, Any]) -> Mapping[str, str]:
    return row["metadata"].get("annotations") or {}


def moment(text: str, end: bool = False) -> float | None:
    """Seconds since 1970 of a date, or of a date with a time; without a zone it is UTC. None if it is neither.

    Args:
        text: as ISO 8601 has it.
        end: take the end of a day, where only a date is given.
    """
    try:
        found = dt.datetime.fromisoformat(text)
        if end and len(text) <= len("2026-12-31"):
            found += dt.timedelta(days=1)
    except (ValueError, OverflowError):
        return None
    return (found if found.tzinfo else found.replace(tzinfo=dt.UTC)).timestamp()
