"""Manifests of what the suite runs: a namespace per run, the programs, and pods that ask for no right they do not need."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kubernetes.utils.quantity import parse_quantity

from gpusmith.errors import ToolError
from gpusmith.names import (
    CORDON_TAINT,
    DEVICE_CLASS,
    MANAGED_BY,
    MANAGER,
    OPERANDS_NAMESPACE,
    OWNER_ANNOTATION,
    PRIORITY_CLASS,
    PROGRAMS,
    PURPOSE,
    PURPOSE_LABEL,
    RUN_LABEL,
    RUN_NAMESPACE,
    WORKLOAD_LABEL,
)

Manifest = dict[str, Any]

PROGRAMS_PATH = "/opt/gpusmith"
NOBODY = 65534
MACHINE = "/host"
"""Where a pod that looks at the machine has its root."""
CLAIM = "gpus"
"""Name of a pod's claim, and of the request in it."""
CONTAINER = "workload"
"""Name of our container: others in the pod are somebody else's."""


@dataclass(frozen=True)
class Run:
    """One run of the suite, as the cluster knows it.

    Attributes:
        id: short and unique, lower case.
        owner: process of the suite and where it runs, so that another run can tell whether this one still lives.
        labels: of the site's, which its policies ask for, on namespace, Jobs and pods.
        annotations: likewise.
        pull_secrets: names of Secrets with which images are pulled.
        secrets_from: their namespace.
        keep: told what a pod of the suite printed, by its host and name.
        within: namespace that is there and stays, in which it works; empty for one of its own.
        gpu_budget: how many GPUs it may take at the same time; 0 for no limit.
        priority: PriorityClass of its pods; empty for the cluster's default, where ours is not there.
    """

    id: str
    owner: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    pull_secrets: tuple[str, ...] = ()
    secrets_from: str = OPERANDS_NAMESPACE
    keep: Callable[[str, str], None] = field(default=lambda _name, _log: None, compare=False, repr=False)
    within: str = ""
    gpu_budget: int = 0
    priority: str = PRIORITY_CLASS

    @property
    def namespace(self) -> str:
        """Name of the namespace that it works in."""
        return self.within or RUN_NAMESPACE + self.id

    @property
    def prefix(self) -> str:
        """Start of the names of its pods, where others have theirs beside them."""
        # Names of jobs over several nodes have it three times, and room for 63 characters.
        return f"{self.id.rpartition('-')[2]}-" if self.within else ""

    @property
    def programs(self) -> str:
        """Name of its ConfigMap with the programs."""
        return f"{PROGRAMS}-{self.id}" if self.within else PROGRAMS

    @property
    def home(self) -> str:
        """Path of the object by which other runs know it: its namespace, or its programs in one that stays."""
        place = f"/api/v1/namespaces/{self.namespace}"
        return f"{place}/configmaps/{self.programs}" if self.within else place


def earlier(run: Run, programs: str) -> Run:
    """Another run in the same namespace, by the name of its ConfigMap."""
    return replace(run, id=programs.removeprefix(f"{PROGRAMS}-"))


@dataclass(frozen=True)
class PodTask:
    """What one pod is to do.

    Attributes:
        name: of the Job or Pod, unique in the run.
        node: name of the Node object that it must run on.
        image: container image; must have python3 if the command is one of our programs.
        command: program and arguments.
        gpus: how many it asks for; 0 for a pod that must see none.
        resource: of which it asks for so many; a device class is asked for by a claim.
        simulated: the inventory's word, which the program compares with the library.
        tolerated: keys of taints.
        cordoned: it goes to the node although that is cordoned.
        runtime_class: empty for the cluster's default.
        job: name of the Service by which pods of several nodes find each other; empty for a pod that is alone.
        hostname: under which they find it, also where it is made once more under another name.
        env: further variables.
        machine: it looks at the machine itself, as root, whatever taints its node has; only ever to read.
        limits: of CPU and memory, for clusters that ask for them; requests are never higher.
        node_labels: labels that its node must have.
        priority: PriorityClass, if not the run's.
        shares: of each GPU of its node: as many pods ask for as much CPU as one with the whole GPU.
        timeout_s: how long it may run.
        pull_s: how long it may take until it runs; the pod is ended after both together.
    """

    name: str
    node: str
    image: str
    command: Sequence[str]
    gpus: int
    simulated: bool
    resource: str
    tolerated: Sequence[str] = ()
    cordoned: bool = False
    runtime_class: str = ""
    job: str = ""
    hostname: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    machine: bool = False
    limits: Mapping[str, str] = field(default_factory=dict)
    node_labels: Mapping[str, str] = field(default_factory=dict)
    priority: str = ""
    shares: int = 1
    timeout_s: float = 300.0
    pull_s: float = 900.0

    @property
    def claims(self) -> bool:
        """Whether it gets its GPUs by a claim, from the template with its name."""
        return bool(self.gpus) and self.resource == DEVICE_CLASS

    @property
    def ends_after_s(self) -> int:
        """When the cluster ends the pod, whatever became of the suite."""
        return int(self.timeout_s + self.pull_s)


def labels(run: Run) -> dict[str, str]:
    """What everything of a run carries."""
    return {**run.labels, MANAGED_BY: MANAGER, PURPOSE_LABEL: PURPOSE, RUN_LABEL: run.id}


def namespace(run: Run) -> Manifest:
    """The run's namespace; it admits no privileged pod, ours included."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": run.namespace,
            "labels": {**labels(run), "pod-security.kubernetes.io/enforce": "restricted"},
            "annotations": {**run.annotations, OWNER_ANNOTATION: run.owner},
        },
    }


NO_DATA: Mapping[str, bytes] = MappingProxyType({})


def programs(run: Run, folder: Path, data: Mapping[str, bytes] = NO_DATA) -> Manifest:
    """The programs as a ConfigMap.

    Args:
        run: whose they are.
        folder: of the programs.
        data: what lies beside them, by its name.

    Raises:
        ToolError: the folder has none.
    """
    found = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py"))}
    if not found:
        raise ToolError(f"No programs are in '{folder}'.", "Restore the folder from the repository.")
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": run.programs,
            "namespace": run.namespace,
            "labels": labels(run),
            "annotations": {**run.annotations, OWNER_ANNOTATION: run.owner},
        },
        "data": found,
        **({"binaryData": {name: b64encode(each).decode() for name, each in data.items()}} if data else {}),
    }


def program(name: str) -> list[str]:
    """Command that runs one of our programs in a pod."""
    return ["python3", f"{PROGRAMS_PATH}/{name}"]


def _pod_spec(run: Run, task: PodTask) -> Manifest:
    tolerations = [{"key": key, "operator": "Exists"} for key in task.tolerated]
    if task.cordoned:
        tolerations.append({"key": CORDON_TAINT, "operator": "Exists", "effect": "NoSchedule"})
    spec: Manifest = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 1,
        "activeDeadlineSeconds": task.ends_after_s,
        "affinity": _only_on(task.node, task.node_labels),
        "tolerations": tolerations,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": NOBODY,
            "runAsGroup": NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(task)],
        "volumes": [
            {"name": "programs", "configMap": {"name": run.programs}},
            {"name": "scratch", "emptyDir": {"sizeLimit": "256Mi"}},
            # Frameworks exchange data of several GPUs there; the runtime's own has 64 MB.
            {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
        ],
    }
    if task.machine:
        # Its network as well: the machine's own name comes with it, and a broken pod network does not matter.
        spec |= {"hostPID": True, "hostNetwork": True, "securityContext": {"runAsUser": 0, "runAsGroup": 0}}
        spec["tolerations"] = [{"operator": "Exists"}]
        spec["volumes"].append({"name": "machine", "hostPath": {"path": "/", "type": "Directory"}})
    if task.claims:
        spec["resourceClaims"] = [{"name": CLAIM, "resourceClaimTemplateName": task.name}]
    if task.job:
        spec |= {"hostname": task.hostname, "subdomain": task.job}
    if task.priority or run.priority:
        spec["priorityClassName"] = task.priority or run.priority
    if run.pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in run.pull_secrets]
    if task.runtime_class:
        spec["runtimeClassName"] = task.runtime_class
    return spec


def _only_on(node: str, node_labels: Mapping[str, str]) -> Manifest:
    """Through the scheduler, never by nodeName: that would take GPUs which others have been promised."""
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    if node_labels:
        here["matchExpressions"] = [
            {"key": key, "operator": "In", "values": [value]} for key, value in node_labels.items()
        ]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [here]}}}


def _container(task: PodTask) -> Manifest:
    env = {
        "GPUSMITH_SIMULATED": "true" if task.simulated else "false",
        "GPUSMITH_GPUS": str(task.gpus),
        "HOME": "/tmp",  # noqa: S108 - of the container
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": "1",
        **task.env,
    }
    # Its weight too: on cgroup v1 a starved container is not frozen in time, which its runtime takes for a failed start.
    requests = {"cpu": f"{100 // task.shares if task.gpus else 100}m", "memory": "64Mi"}
    requests |= {
        name: min(requests[name], task.limits[name], key=parse_quantity)
        for name in requests.keys() & task.limits
    }
    resources: Manifest = {"requests": requests}
    limits = {**task.limits, **({task.resource: str(task.gpus)} if task.gpus and not task.claims else {})}
    if limits:
        resources["limits"] = limits
    if task.claims:
        resources["claims"] = [{"name": CLAIM}]
    made: Manifest = {
        "name": CONTAINER,
        "image": task.image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(task.command),
        "env": [{"name": name, "value": value} for name, value in env.items()],
        "resources": resources,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "programs", "mountPath": PROGRAMS_PATH, "readOnly": True},
            {"name": "scratch", "mountPath": "/tmp"},  # noqa: S108 - of the container
            {"name": "shared-memory", "mountPath": "/dev/shm"},  # noqa: S108 - likewise
        ],
    }
    if task.machine:
        made["securityContext"] = {"privileged": True, "readOnlyRootFilesystem": True}
        made["volumeMounts"].append({"name": "machine", "mountPath": MACHINE, "readOnly": True})
    return made


def _metadata(run: Run, task: PodTask) -> Manifest:
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", task.name):
        raise ToolError(f"'{task.name}' cannot be the name of a pod.", "Report this as a fault of gpusmith.")
    marks = {**labels(run), WORKLOAD_LABEL: task.name}
    annotations = {"annotations": dict(run.annotations)} if run.annotations else {}
    return {"name": task.name, "namespace": run.namespace, "labels": marks, **annotations}


def job(run: Run, task: PodTask) -> Manifest:
    """A Job of one pod that is tried once."""
    metadata = _metadata(run, task)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            "activeDeadlineSeconds": task.ends_after_s,
            "template": {
                "metadata": {key: metadata[key] for key in ("labels", "annotations") if key in metadata},
                "spec": _pod_spec(run, task),
            },
        },
    }


def pod(run: Run, task: PodTask) -> Manifest:
    """A bare pod, for what is ended by hand: a Job would make another one."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(run, task),
        "spec": _pod_spec(run, task),
    }


def claim_template(run: Run, task: PodTask) -> Manifest:
    """What the claim of a task's pod is made from, and the next one's if a Job makes it again."""
    exactly = {"deviceClassName": task.resource, "allocationMode": "ExactCount", "count": task.gpus}
    metadata = _metadata(run, task)
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": metadata,
        "spec": {
            "metadata": {"labels": metadata["labels"]},
            "spec": {"devices": {"requests": [{"name": CLAIM, "exactly": exactly}]}},
        },
    }


def service(run: Run, name: str) -> Manifest:
    """Gives each pod of a job over several nodes a name in DNS, also before it is ready."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": run.namespace, "labels": labels(run)},
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {RUN_LABEL: run.id}},
    }
