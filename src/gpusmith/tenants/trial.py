"""What the API server makes of the policy before it is bound: of cases whose outcome is known, and of pods that run.

Only the API server can tell what it will do. So the policy is bound for pods with a mark, and the API server is asked for some of
them by dry run, which makes none.
"""

from __future__ import annotations

import datetime as dt
import json
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpusmith.cluster import apply, dra
from gpusmith.cluster.api import DRY, FORBIDDEN, ApiRefused, Cluster, Object
from gpusmith.cluster.holders import finished
from gpusmith.cluster.managed_fields import title
from gpusmith.cluster.retries import ONE_TRY
from gpusmith.cluster.snapshot import GPU_RESOURCES, POLICIES
from gpusmith.cluster.views import PODS
from gpusmith.errors import ToolError
from gpusmith.names import GPU_RESOURCE, GPU_TAINT, MANAGED_BY, MANAGER, TRIAL_LABEL
from gpusmith.tenants.policy import DENY, GROUP, Policy
from gpusmith.wait import Deadline, Done, GiveUp, NotYet, WaitTimeout, wait_until

IN_FORCE_S = 60.0
"""Until the API server judges by a policy that it has taken; it takes a second or two."""
TICK_S = 0.5
OLD = dt.timedelta(minutes=15)
"""No trial goes on for so long: what is older is of a run that was killed."""
SPACE = "gpusmith-trial-"
MOST = 2
"""GPUs that a pod of the trial's team may ask for."""
SAYS = "denied request: "
"""What stands before the policy's own words (Kubernetes 1.36, apiserver/pkg/admission/plugin/policy/validating/dispatcher.go)."""
OF_CONTAINER = ("name", "image", "resources", "securityContext", "restartPolicy")
OF_SPEC = ("tolerations", "resourceClaims", "securityContext", "serviceAccountName")


@dataclass(frozen=True)
class Case:
    """A pod whose outcome is known.

    Attributes:
        name: in words.
        says: part of what the policy says of it; empty if it must be admitted.
        spec: of the pod, besides its containers.
        container: of its only container, besides name and image.
        team: whether it is a team's.
        owner: kind of its controller.
        needs: version of an API without which pods have nothing of the kind.
    """

    name: str
    says: str = ""
    spec: Mapping[str, Any] = field(default_factory=dict)
    container: Mapping[str, Any] = field(default_factory=dict)
    team: bool = False
    owner: str = ""
    needs: str = ""


def _asks(count: object, resource: str = GPU_RESOURCE) -> Object:
    return {"resources": {"limits": {resource: str(count)}}}


def _mounts(path: str) -> Object:
    return {"volumes": [{"name": "host", "hostPath": {"path": path}}]}


def _adds(capability: str) -> Object:
    return {"securityContext": {"capabilities": {"add": [capability]}}}


def _more(kind: str, count: int, **fields: Any) -> Object:
    """Another container."""
    return {kind: [{"name": "more", "image": "none", **_asks(count), **fields}]}


PRIVILEGED = {"securityContext": {"privileged": True}}
TOLERATES = {"tolerations": [{"key": GPU_TAINT, "operator": "Exists"}]}
TOLERATES_ALL = {"tolerations": [{"operator": "Exists"}]}
FROM_NODE = "devices of the node"
_OWNER: Object = {"apiVersion": "apps/v1", "name": "x", "uid": "x", "controller": True}
CASES = (
    Case("privileged", "Privileged containers", container=PRIVILEGED),
    Case("SYS_ADMIN", "Containers with", container=_adds("SYS_ADMIN")),
    Case("CAP_SYS_RAWIO", "Containers with", container=_adds("CAP_SYS_RAWIO")),
    Case("all capabilities, in small letters", "Containers with", container=_adds("all")),
    Case("the node's root", FROM_NODE, _mounts("/")),
    Case("a device", FROM_NODE, _mounts("//dev/./nvidia0")),
    Case("a folder above the kubelet's", FROM_NODE, _mounts("/var/lib")),
    Case("the runtime's socket", FROM_NODE, _mounts("/run/containerd/containerd.sock")),
    Case("CDI's folder", FROM_NODE, _mounts("/etc/cdi/")),
    Case("the GPU taint without a GPU", "asks for no GPU", TOLERATES),
    Case("all taints without a GPU", "asks for no GPU", TOLERATES_ALL),
    Case("the GPU taint with 0 GPUs", "asks for no GPU", TOLERATES, _asks(0)),
    Case("a GPU more than a pod may have", "asks for 3", TOLERATES, _asks(MOST + 1), team=True),
    Case("1000 GPUs, which the API writes as 1k", "asks for 1000", container=_asks(1000), team=True),
    Case("too many by a sidecar", "asks for 3", _more("initContainers", 1, restartPolicy="Always"), _asks(2), team=True),
    Case("too many for an init container", "asks for 3", _more("initContainers", 3), team=True),
    Case("a DaemonSet of a team", "Privileged containers", container=PRIVILEGED, team=True, owner="DaemonSet"),
    Case("nothing of all this"),
    Case("a GPU", spec=TOLERATES, container=_asks(1)),
    Case("a share", spec=TOLERATES, container=_asks(1, "nvidia.com/gpu.shared")),
    Case("a MIG instance", spec=TOLERATES_ALL, container=_asks(1, "nvidia.com/mig-1g.10gb")),
    Case("a claim", spec={**TOLERATES, "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "x"}]}, needs=dra.API),
    Case("another taint", spec={"tolerations": [{"key": "x", "operator": "Exists"}]}),
    Case("a capability without GPUs behind it", container=_adds("NET_BIND_SERVICE")),
    Case("a folder with data", spec=_mounts("/development")),
    Case("shared memory", spec=_mounts("/dev/shm")),  # noqa: S108 - of nodes
    Case("as many GPUs as a pod may have", spec=TOLERATES, container=_asks(MOST), team=True),
    Case("an init container before them", spec=_more("initContainers", 2), container=_asks(MOST), team=True),
    Case("more GPUs than a team's pod, in no team", spec=TOLERATES, container=_asks(8)),
    Case("a network's DaemonSet", spec={**TOLERATES_ALL, **_mounts("/")}, container=PRIVILEGED, owner="DaemonSet"),
    Case("a static pod", spec={**TOLERATES_ALL, **_mounts("/")}, container=PRIVILEGED, owner="Node"),
)  # fmt: skip


@dataclass(frozen=True)
class Judged:
    """What would become of workloads that run, if their pods were made now.

    Attributes:
        refused: why, by what makes the pods.
        untold: why it could not be found out, likewise.
    """

    refused: dict[str, str] = field(default_factory=dict)
    untold: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Said:
    """What the API server says of a pod.

    Attributes:
        words: why it is refused; empty if it is admitted.
        by_policy: whether it is the policy that refuses it.
        status: of HTTP.
    """

    words: str = ""
    by_policy: bool = False
    status: int = 0


def judge(cluster: Cluster, policy: Policy, sleep: Callable[[float], None] = time.sleep) -> Judged:
    """Have the API server judge the cases, then copies of the pods that run.

    Raises:
        ToolError: it judges a case wrong, or does not answer.
    """
    trial = secrets.token_hex(4)
    tried = replace(policy, mode=DENY, teams={**policy.teams, _space(trial, True): MOST}, trial=trial)
    labels = {MANAGED_BY: MANAGER, TRIAL_LABEL: trial}
    made = [*(_namespace(_space(trial, team), labels) for team in (False, True)), *tried.objects(labels)]
    _remove(cluster, _left_behind(cluster))
    try:
        apply.apply(cluster, made, check=False, sleep=sleep)
        _cases(cluster, tried, sleep)
        return _running(cluster, tried)
    finally:
        _remove(cluster, reversed(made))


def _space(trial: str, team: bool) -> str:
    """The namespace of a trial's cases."""
    return f"{SPACE}{trial}{'-team' if team else ''}"


def _namespace(name: str, labels: Mapping[str, str]) -> Object:
    """Pod Security admits everything there."""
    standard = {"pod-security.kubernetes.io/enforce": "privileged"}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {**labels, **standard}},
    }


def _left_behind(cluster: Cluster) -> Iterator[Object]:
    """What is left of runs that were killed."""
    now = dt.datetime.now(dt.UTC)
    for kind, path in {**POLICIES, "Namespace": "/api/v1/namespaces"}.items():
        for row in cluster.items(path, labelSelector=TRIAL_LABEL):
            if now - dt.datetime.fromisoformat(row["metadata"]["creationTimestamp"]) > OLD:
                version = GROUP if kind in POLICIES else "v1"
                yield {"apiVersion": version, "kind": kind, "metadata": row["metadata"]}


def _remove(cluster: Cluster, objects: Iterable[Object]) -> None:
    """Without a wait: a namespace with nothing in it goes by itself."""
    for row in objects:
        if path := apply.path_of(cluster, row):
            cluster.delete(path)


def _cases(cluster: Cluster, policy: Policy, sleep: Callable[[float], None]) -> None:
    left = [case for case in CASES if not case.needs or cluster.serves(case.needs)]

    def look() -> Done[None] | NotYet:
        # Each server of a control plane learns of a policy by itself, so that one may not judge by it yet.
        while left:
            name, says = left[0].name, left[0].says
            said = _tried(cluster, policy, _pod(left[0], policy.trial))
            words = said.words.rstrip(".")
            if said.by_policy and not (says and says in words):
                raise GiveUp(f"case '{name}' is refused: {words}.")
            if says and not said.by_policy:
                return NotYet(f"case '{name}' is {'answered with: ' if words else 'admitted'}{words}")
            left.pop(0)
        return Done(None)

    try:
        wait_until(
            "the API server to judge the policy's own cases", look, Deadline(IN_FORCE_S), TICK_S, sleep
        )
    except (GiveUp, WaitTimeout) as error:
        raise ToolError(
            f"The API server does not judge by the policy as it should, so that it was not bound: {error.message}",
            "Set 'gpu_tenants_policy: none' to go on without it, and report this with the version of Kubernetes.",
        ) from error


def _pod(case: Case, trial: str) -> Object:
    container = {"name": "main", "image": "none", **case.container}
    return {
        "metadata": {
            "namespace": _space(trial, case.team),
            **({"ownerReferences": [{**_OWNER, "kind": case.owner}]} if case.owner else {}),
        },
        "spec": {**case.spec, "containers": [container]},
    }


def _tried(cluster: Cluster, policy: Policy, pod: Object) -> Said:
    """What comes of asking for a pod with the mark.

    Raises:
        ApiUnreachable: the cluster does not answer.
    """
    answer = ask(cluster, {**pod, "metadata": {**pod["metadata"], "labels": {TRIAL_LABEL: policy.trial}}})
    _, by_policy, words = answer.words.partition(f"'{policy.name}' {SAYS}")
    return replace(answer, words=words, by_policy=True) if by_policy else answer


def ask(cluster: Cluster, pod: Object) -> Said:
    """What the API server says of a pod, which it does not make: policies first, then quotas.

    Raises:
        ApiUnreachable: the cluster does not answer.
    """
    space = pod["metadata"]["namespace"]
    metadata = {**pod["metadata"], "generateName": SPACE}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod["spec"]}
    try:
        # A refusal that is meant must not be tried again.
        cluster.call("POST", f"/api/v1/namespaces/{space}/pods", body, DRY, patience=ONE_TRY)
    except ApiRefused as error:
        return Said(error.message, status=error.status)
    return Said()


def _running(cluster: Cluster, policy: Policy) -> Judged:
    """Of pods that are alike but for what no rule looks at, one is tried."""

    def cut(pod: Object) -> Object | None:
        matters = not finished(pod) and _may_matter(pod["spec"])
        return {"maker": _maker(pod), "copy": json.dumps(_copy(pod), sort_keys=True)} if matters else None

    alike: dict[str, dict[str, None]] = {}
    for row in cluster.items(PODS, cut):
        alike.setdefault(row["copy"], {})[row["maker"]] = None
    found = Judged()
    for text, makers in alike.items():
        said = _tried(cluster, policy, json.loads(text))
        if said.by_policy:
            found.refused.update(dict.fromkeys(makers, said.words))
        elif said.words and said.status != FORBIDDEN:
            found.untold.update(dict.fromkeys(makers, said.words))
    return found


def _controller(pod: Object) -> Object | None:
    rows = pod["metadata"].get("ownerReferences") or ()
    return next((row for row in rows if row.get("controller")), None)


def _maker(pod: Object) -> str:
    """Who would make the pod anew, in words."""
    metadata, owner = pod["metadata"], _controller(pod) or {"kind": "Pod", "name": pod["metadata"]["name"]}
    return title(owner["kind"], owner["name"], metadata["namespace"])


def _copy(pod: Object) -> Object:
    """As much of a pod as rules look at, of ours and of Pod Security; the same for pods that are alike."""
    spec, owner = pod["spec"], _controller(pod)
    return {
        "metadata": {
            "namespace": pod["metadata"]["namespace"],
            **({"ownerReferences": [{**_OWNER, "kind": owner["kind"]}]} if owner else {}),
        },
        "spec": {
            **{name: spec[name] for name in OF_SPEC if name in spec},
            "volumes": [row for row in spec.get("volumes") or () if "hostPath" in row],
            **{
                kind: [{name: row[name] for name in OF_CONTAINER if name in row} for row in spec[kind]]
                for kind in ("containers", "initContainers")
                if spec.get(kind)
            },
        },
    }


def _may_matter(spec: Object) -> bool:
    """Whether a pod has anything of what the policy looks at; most have not, and need not be tried."""
    containers = [*spec["containers"], *(spec.get("initContainers") or ())]
    return (
        any("hostPath" in row for row in spec.get("volumes") or ())
        or any(row.get("key", "") in ("", GPU_TAINT) for row in spec.get("tolerations") or ())
        or any(
            context.get("privileged") or (context.get("capabilities") or {}).get("add")
            for row in containers
            for context in [row.get("securityContext") or {}]
        )
        or any(
            key.startswith(GPU_RESOURCES)
            for row in containers
            for key in (row.get("resources") or {}).get("limits") or ()
        )
    )
