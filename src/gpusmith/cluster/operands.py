"""What operands say of themselves, and which operand a container is, whoever runs it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from gpusmith.cluster import hints
from gpusmith.cluster.api import ApiRefused, Cluster
from gpusmith.data.operands import DEVICE_PLUGIN, OPERATOR, Operand, deployed, rows
from gpusmith.names import MANAGED_BY, MANAGER
from gpusmith.wanted import layouts
from gpusmith.wording import quoted

Pod = Mapping[str, Any]

COMES_UP = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons of a waiting container that need no help; every other one names a trouble."""
BACKS_OFF = "CrashLoopBackOff"
"""Reason of a waiting container that ended several times: kubelet starts it again after at most five minutes
(Kubernetes documentation, 'Pod Lifecycle', container restarts)."""

PULLS = ("ErrImagePull", "ImagePullBackOff")
"""Reasons of a waiting container whose image does not come."""
MOST_TOLD = 3
MOST_OF_SCHEDULER = 300
"""Characters: of many kinds of nodes it says much."""

MOST_OF_LOG, LAST_LINES = 500, 2
QUOTED = re.compile(r'`[^`]*`|\\"[^"]*\\"')
"""Values in a log line whose own texts are in quotes, as Alertmanager's of a wrong address with a token in it."""

POLICIES = "/apis/nvidia.com/v1/clusterpolicies"
"""Installed by the GPU Operator; without it the API has no such resource."""
OTHER_VENDORS = frozenset(
    ("amd", "amdgpu", "cambricon", "dcu", "enflame", "gaudi", "gcu", "habana", "hygon", "intel", "mlu", "neuron", "npu",
     "rocm", "xpu")
)  # fmt: skip
"""Parts of names of images that offer devices of others, and of their vendors' repositories: 'rocm/k8s-device-plugin'."""
PLUGIN_FOLDER = "/var/lib/kubelet/device-plugins"
"""The kubelet's registration folder for device plugins. A pod that does not mount it is not a device plugin."""
DAEMON_SET = "DaemonSet"
SHELLS = ("sh", "bash", "ash", "dash")


DEVICE_PLUGINS = re.compile(r"(?<![a-z])(nvidia|v?gpu)[a-z]*-(gpu-)?device-plugin|k8s-device-plugin")
"""What programs and images are called that offer NVIDIA's GPUs: copies under other names, HAMi's, Volcano's, gpushare, GKE's."""
OTHER_RESOURCES = ("kubevirt",)
"""Parts of names of those that offer other resources, such as GPUs for virtual machines."""


def components(spec: Mapping[str, Any]) -> frozenset[str]:
    """Which operands the containers of a pod's specification run."""
    rows = spec.get("containers") or []
    found = {component(row) for row in rows} - {""}
    if not _meets_kubelet(spec):
        return frozenset(found - {DEVICE_PLUGIN})
    # Whatever its image is called: who registers NVIDIA's GPUs with the kubelet is a device plugin.
    return frozenset(found | {DEVICE_PLUGIN for row in rows if not component(row) and _offers_gpus(row)})


def _of_other_vendor(image: str) -> bool:
    """Whether an image, without its digest, is another vendor's; a registry's address says nothing of it."""
    first, slash, rest = image.partition("/")
    name = rest if slash and any(sign in first for sign in ".:") else image
    parts = set(re.split(r"[/._-]", name.partition(":")[0].lower()))
    return bool(parts & OTHER_VENDORS) and "nvidia" not in parts


def _offers_gpus(container: Mapping[str, Any]) -> bool:
    """Whether image or program is called like a device plugin for GPUs; folders of an image are its vendor's."""
    whole = str(container.get("image")).partition("@")[0]
    words = [
        whole.rpartition("/")[2],
        *map(str, container.get("command") or []),
        *map(str, container.get("args") or []),
    ]
    if _of_other_vendor(whole) or any(part in word for part in OTHER_RESOURCES for word in words):
        return False
    return any(DEVICE_PLUGINS.search(word.rpartition("/")[2]) for word in words)


def _meets_kubelet(spec: Mapping[str, Any]) -> bool:
    """Whether a pod mounts the kubelet's folder of device plugins or a parent of it; the kubelet's root may be elsewhere."""
    paths = [
        str((volume.get("hostPath") or {}).get("path") or "").rstrip("/") + "/"
        for volume in spec.get("volumes") or []
        if volume.get("hostPath")
    ]
    return any(path.endswith("/device-plugins/") or f"{PLUGIN_FOLDER}/".startswith(path) for path in paths)


def component(container: Mapping[str, Any]) -> str:
    """Which operand a container of a pod runs, by its image and, where that has several, its command; empty if none."""
    image = str(container.get("image")).partition("@")[0]
    called = image.rpartition("/")[2].split(":")[0]
    if _of_other_vendor(image):
        return ""
    possible = [row.component for row in rows() if called.endswith(row.images)]
    return _program(container, possible) if len(possible) > 1 else "".join(possible)


def _program(container: Mapping[str, Any], possible: Sequence[str]) -> str:
    """Which of several a container runs, by its command; the first is what their image runs by itself."""
    command = [str(word) for word in container.get("command") or []]
    if not command:
        return possible[0]  # what there is of arguments is its own
    program = command[0].rpartition("/")[2]
    if program in possible:
        return program
    if program not in SHELLS:
        return ""
    words = " ".join([*command, *map(str, container.get("args") or [])])
    named = [each for each in possible if each in words]
    # A script's program is unknown: assume the device plugin, since a second one does more harm.
    return named[0] if len(named) == 1 else possible[0]


def name(pod: Pod) -> str:
    """Which operand a pod is of; empty if it does not say."""
    return str((pod["metadata"].get("labels") or {}).get("app.kubernetes.io/name") or "")


def is_served(pod: Pod, component: str) -> bool:
    """Whether it is a pod of a DaemonSet that is called as one of ours which runs a component."""
    return any(
        row.get("kind") == DAEMON_SET and layouts.serves(str(row.get("name")), component)
        for row in _owners(pod)
    )


def _owners(pod: Pod) -> Sequence[Mapping[str, Any]]:
    return pod["metadata"].get("ownerReferences") or ()


def owner(pod: Pod) -> str:
    """Who set a pod up, in words, as far as its labels and its namespace tell."""
    metadata = pod["metadata"]
    labels = metadata.get("labels") or {}
    if labels.get(MANAGED_BY) == OPERATOR or str(labels.get("helm.sh/chart")).startswith(OPERATOR):
        return "the GPU Operator"
    if release := labels.get("app.kubernetes.io/instance"):
        return f"Helm release '{release}'"
    if metadata["namespace"] == "kube-system":
        return "an add-on of the cluster"
    return f"whoever runs namespace '{metadata['namespace']}'"


def problem(pod: Pod) -> str:
    """Why a pod does not serve; empty if it does."""
    status = pod.get("status") or {}
    for row in status.get("containerStatuses") or []:
        if not row.get("ready"):
            return f"container '{row.get('name')}' is not ready ({_why(row)})"
    if not _is_ready(pod):
        return f"it is {status.get('phase')}{_unscheduled(status)}"
    return ""


def _unscheduled(status: Mapping[str, Any]) -> str:
    """What the scheduler says of a pod that has no node yet."""
    rows = (row for row in status.get("conditions") or [] if row.get("type") == "PodScheduled")
    said = " ".join(str(row.get("message") or "") for row in rows if row.get("status") == "False")
    return f": {' '.join(said.split())[:MOST_OF_SCHEDULER].rstrip('.')}" if said.strip() else ""


def next_step(pod: Pod) -> str:
    """What to do about a pod that does not serve."""
    namespace, called = pod["metadata"]["namespace"], pod["metadata"]["name"]
    read = f"Read: kubectl -n {namespace} logs {called}"
    rows = (pod.get("status") or {}).get("containerStatuses") or []
    waiting = {str(((row.get("state") or {}).get("waiting") or {}).get("reason")) for row in rows}
    if not waiting.isdisjoint(PULLS):
        look = f"Look at the image's name and at the registry: kubectl -n {namespace} describe pod {called}"
        return f"{hints.of_registry(problem(pod))} {look}".lstrip()
    if BACKS_OFF not in waiting:
        return read
    return (
        f"{read}. Kubelet starts it again within 5 minutes. If what stopped it is over, such as a reboot of the control plane,"
        f" start it now: kubectl -n {namespace} delete pod {called}"
    )


def troubles(cluster: Cluster, namespace: str) -> list[str]:
    """Why operands of ours do not serve, in the cluster's words: some sentences each, of many the first ones."""
    folder = f"/api/v1/namespaces/{namespace}"
    pods = cluster.items(f"{folder}/pods")
    made = [f"{name(pod)}-" for pod in pods]
    owners = {(row.get("kind"), row.get("name")) for pod in pods for row in _owners(pod)}
    found: dict[str, str] = {}
    for event in cluster.items(f"{folder}/events", fieldSelector="reason=FailedCreate"):
        owner, said = event["involvedObject"], " ".join(str(event.get("message")).split())
        # Events stay for an hour: what has a pod now got over it. A ReplicaSet may have given way to the next one.
        has_pod = (owner["kind"], owner["name"]) in owners
        if not has_pod and (owner["kind"] == DAEMON_SET or not f"{owner['name']}-".startswith(tuple(made))):
            found[said] = f"{owner['kind']} '{owner['name']}' gets no pod: {said}. {hints.of_policy(said)}"
    for pod in pods:
        if wrong := problem(pod):
            found[wrong] = f"Pod '{pod['metadata']['name']}': {wrong}. {hints.of_registry(wrong)}"
    told = [row.rstrip() for row in found.values()][:MOST_TOLD]
    return [*told, *_last_words(cluster, pods)]


def _last_words(cluster: Cluster, pods: Iterable[Pod]) -> list[str]:
    """The end of the log of the first container that ends again and again; what it quotes may be a password."""
    for pod in pods:
        for row in (pod.get("status") or {}).get("containerStatuses") or []:
            if ((row.get("state") or {}).get("waiting") or {}).get("reason") == BACKS_OFF:
                where = pod["metadata"]["namespace"], pod["metadata"]["name"], row["name"]
                with suppress(ApiRefused):
                    lines = cluster.log(*where).strip().splitlines()[-LAST_LINES:]
                    said = QUOTED.sub("...", " ".join(lines))[-MOST_OF_LOG:]
                    return [f"Its log ends with: {said}"] if said else []
                return []
    return []


def starting(pods: Iterable[Pod]) -> list[str]:
    """Names of pods that are on a node and not ready, of which nothing says that they will not be.

    A readiness probe answers seconds after its container runs, and may miss once on a busy node.
    """
    return [str(pod["metadata"]["name"]) for pod in pods if _comes_up(pod)]


def _comes_up(pod: Pod) -> bool:
    if _is_ready(pod) or not (pod.get("spec") or {}).get("nodeName"):
        return False
    states = [row.get("state") or {} for row in (pod.get("status") or {}).get("containerStatuses") or []]
    return all(
        not state.get("terminated") and str((state.get("waiting") or {}).get("reason") or "") in COMES_UP
        for state in states
    )


def _is_ready(pod: Pod) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(row.get("type") == "Ready" and row.get("status") == "True" for row in conditions)


def _why(container: Mapping[str, Any]) -> str:
    state = container.get("state") or {}
    if running := state.get("running"):
        return f"runs since {running.get('startedAt')}, its readiness probe does not pass"
    stopped = state.get("waiting") or state.get("terminated") or {}
    message = " ".join(str(stopped.get("message") or "").split())
    return f"{stopped.get('reason') or 'no reason given'}{': ' + message[-300:] if message else ''}"


def restart_plugin(namespace: str, node: str, component: str = DEVICE_PLUGIN) -> str:
    """The command that has our device plugin, or what is in its place, start anew on a node."""
    return (
        f"kubectl -n {namespace} delete pod -l app.kubernetes.io/name={component}"
        f" --field-selector spec.nodeName={node}"
    )


def second_owners(
    workloads: Iterable[Mapping[str, Any]],
    namespace: str,
    ours: Collection[str],
    policies: Callable[[], Iterable[Mapping[str, Any]]] = tuple,
) -> list[str]:
    """Operands that somebody else runs, one sentence each.

    Args:
        workloads: DaemonSets and Deployments of the cluster.
        namespace: ours.
        ours: components that are to be ours.
        policies: gets the ClusterPolicies of the GPU Operator, which say what it installs; called if it is there.
    """
    found, operators = [], []
    for workload in workloads:
        metadata = workload["metadata"]
        made_by_us = (metadata.get("labels") or {}).get(MANAGED_BY) == MANAGER
        if metadata["namespace"] == namespace and made_by_us:
            continue
        title = f"'{metadata['namespace']}/{metadata['name']}'"
        theirs = components(workload["spec"]["template"]["spec"])
        found += [
            f"{title} is a {row.name} that gpusmith made under another 'gpu_operands_namespace'."
            f" Set that again, or remove the old one: kubectl delete namespace {metadata['namespace']}"
            if made_by_us
            else f"{title} is a {row.name} of somebody else. {_stays(row)}"
            for row in rows()
            if row.component in theirs and row.component in ours
        ]
        if OPERATOR in theirs:
            operators.append(title)
    if not operators:
        return found
    return found + [
        f"The GPU Operator {' and '.join(operators)} installs {' and '.join(parts)} (ClusterPolicy '{name}'), as site.yml does."
        f" Set {' and '.join(f'{part}.enabled=false' for part in parts)} in the operator's values. Of"
        f" {quoted(row.owner for row in deployed())}, set those to 'existing' that the operator runs."
        for name, parts in _owned(policies()).items()
        if parts
    ]


def _stays(row: Operand) -> str:
    if not row.owner:
        return "Leave the GPUs to it, and take 'gpusmith_gpu_sharing: dra' out; or agree with its owner that ours serves."
    return f"Let it stay with '{row.owner}: existing'; which of the two serves is for its owner to say."


def _owned(policies: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """The components of ours that each ClusterPolicy enables; the default is enabled."""
    return {
        policy["metadata"]["name"]: [
            part
            for part in ("driver", "toolkit")
            if ((policy.get("spec") or {}).get(part) or {}).get("enabled") is not False
        ]
        for policy in policies
    }
