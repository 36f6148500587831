"""A cluster in memory, whose pods answer at once."""

from __future__ import annotations

import copy
import json
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

NOT_IN_A_NAMESPACE = frozenset(
    {
        "Namespace", "RuntimeClass", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "PriorityClass",
        "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
    }
)  # fmt: skip
KINDS = {
    "v1": "Namespace ServiceAccount ConfigMap Secret Service ResourceQuota LimitRange Pod PersistentVolumeClaim",
    "batch/v1": "Job",
    "apps/v1": "DaemonSet Deployment StatefulSet",
    "node.k8s.io/v1": "RuntimeClass",
    "rbac.authorization.k8s.io/v1": "Role RoleBinding ClusterRole ClusterRoleBinding",
    "apiextensions.k8s.io/v1": "CustomResourceDefinition",
    "scheduling.k8s.io/v1": "PriorityClass",
    "networking.k8s.io/v1": "NetworkPolicy",
    "admissionregistration.k8s.io/v1": "ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding",
}


H100: dict[str, Any] = {
    "name": "NVIDIA H100 80GB HBM3", "memory_gb_s": 2970.0, "gemm_tflops": 720.0, "h2d_gb_s": 54.8, "d2h_gb_s": 50.0,
    "near": True, "pcie_gen": 5, "pcie_gen_max": 5, "pcie_width": 16, "power_limit_mw": 700000, "power_limit_default_mw": 700000,
    "sm_clock_mhz": 1500, "reasons": 4,
}  # fmt: skip
"""Rates of a healthy one."""


def discovery(version: str, definitions: Iterable[Any] = ()) -> dict[str, Any]:
    """What an API server answers to /api/v1 and to /apis/GROUP/VERSION.

    Args:
        version: group and version.
        definitions: CustomResourceDefinitions that it has.
    """
    rows = [
        {"name": _plural(kind), "kind": kind, "namespaced": kind not in NOT_IN_A_NAMESPACE}
        for kind in KINDS.get(version, "").split()
    ]
    for row in definitions:
        spec = row["spec"]
        if version in {f"{spec['group']}/{each['name']}" for each in spec["versions"]}:
            names = spec["names"]
            found = {
                "name": names["plural"],
                "kind": names["kind"],
                "namespaced": spec["scope"] == "Namespaced",
            }
            rows += [found, {**found, "name": names["plural"] + "/status"}]
    return {"kind": "APIResourceList", "groupVersion": version, "resources": rows}


def _plural(kind: str) -> str:
    name = kind.lower()
    return name[:-1] + "ies" if name.endswith("y") else name + ("es" if name.endswith("s") else "s")


class FakeCluster:
    """A cluster in memory that schedules pods to GPUs at once and answers for the programs.

    Attributes:
        gpus: UUIDs per node; one of a GPU that is shared is there for each of its shares.
        resource: name of what the nodes hand out, one for each UUID.
        answers: per program a function from environment and UUIDs to a result; replaced by tests.
        namespaces: those that are there.
        foreign: UUIDs per node that pods of others hold.
        events: of the run's namespace.
        classes: PriorityClasses.
    """

    def __init__(self, gpus: dict[str, list[str]]) -> None:
        self.gpus, self.resource = gpus, "nvidia.com/gpu"
        self.namespaces: dict[str, Any] = {}
        self.pods: dict[str, Any] = {}
        self.given: dict[str, list[str]] = {}
        self.logs: dict[str, str] = {}
        self.foreign: dict[str, Collection[str]] = {}
        self.answers: dict[str, Callable[[dict[str, str], list[str]], Any]] = defaultdict(lambda: self.good)
        self.lock = threading.RLock()
        self.events: list[Any] = []
        self.classes: dict[str, Any] = {}
        self.beats = 0
        self.types: dict[str, str] = {}
        """Label gpu-type of nodes that have another one than all others."""
        self.no_such_type = "3 node(s) didn't match Pod's node affinity/selector."
        self.templates: dict[str, int] = {}
        """GPUs that claims made from them ask for, by name."""

    @staticmethod
    def good(env: dict[str, str], uuids: list[str]) -> Any:
        """What a program says when all is well, on simulated GPUs unless it is told otherwise."""
        return {
            "ok": True, "simulated": env.get("GPUSMITH_SIMULATED") != "false", "uuid": uuids[0] if uuids else None,
            "not_executed": [] if env.get("GPUSMITH_SIMULATED") == "false" else ["the kernel"],
            "uuids": uuids, "devices": [{"uuid": uuid, **H100} for uuid in uuids],
            "slowdowns": {uuid: {"reasons": 4, "looks": 1} for uuid in uuids},
        }  # fmt: skip

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Namespaces and pods; a Job becomes its pod."""
        with self.lock:
            body = copy.deepcopy(body)
            name = body["metadata"]["name"]
            if body["kind"] == "PriorityClass":
                self.classes[name] = body
                return body
            if body["kind"] == "ResourceClaimTemplate":
                (request,) = body["spec"]["spec"]["devices"]["requests"]
                self.templates[name] = request["exactly"]["count"]
            if body["kind"] == "Namespace":
                self.namespaces[name] = body
            elif body["kind"] == "Job":
                spec = body["spec"]["template"]
                self.pods[name + "-x"] = {
                    "metadata": {**spec["metadata"], "name": name + "-x"},
                    "spec": spec["spec"],
                    "status": {},
                }
            elif body["kind"] == "Pod":
                self.pods[name] = {**body, "status": {}}
            self.schedule()
            return body

    def schedule(self) -> None:
        """Give GPUs to whom they are free for, let programs end, release theirs."""
        for name, pod in list(self.pods.items()):
            if pod["status"].get("phase") not in (None, "Pending"):
                continue
            spec = pod["spec"]
            terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
                "nodeSelectorTerms"
            ]
            node = terms[0]["matchFields"][0]["values"][0]
            kinds = [row["values"] for row in terms[0].get("matchExpressions", ())]
            if kinds and kinds != [[self.types.get(node, "h100-sxm")]]:
                self._waits(pod, self.no_such_type)
                continue
            container = spec["containers"][0]
            wanted = int(container["resources"].get("limits", {}).get(self.resource, 0))
            for claim in spec.get("resourceClaims", ()):
                wanted += self.templates[claim["resourceClaimTemplateName"]]
            taken = Counter(uuid for uuids in self.given.values() for uuid in uuids)
            taken.update(self.foreign.get(node, ()))
            free = list((Counter(self.gpus[node]) - taken).elements())
            if wanted > len(free) and spec.get("priorityClassName", "").endswith("-preempts"):
                victim = next(each for each in self.given if self.pods[each]["spec"]["nodeName"] == node)
                del self.pods[victim]
                free = self.given.pop(victim)
            if wanted > len(free):
                lack = "cannot allocate all claims" if self.templates else f"Insufficient {self.resource}"
                self._waits(pod, f"1 {lack}, 2 node(s) didn't match Pod's node affinity.")
                continue
            spec["nodeName"] = node
            uuids = free[:wanted]
            env = {row["name"]: row["value"] for row in container["env"]}
            self.run(name, pod, container["command"], env, uuids)

    @staticmethod
    def _waits(pod: dict[str, Any], reason: str) -> None:
        message = f"0/3 nodes are available: {reason}"
        row = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        pod["status"] = {"phase": "Pending", "conditions": [row]}

    def run(
        self, name: str, pod: dict[str, Any], command: list[str], env: dict[str, str], uuids: list[str]
    ) -> None:
        """Answer for a program."""
        if command[0] == "nvidia-smi":
            self.logs[name] = "\n".join(
                f"GPU {n}: NVIDIA H100 (UUID: {uuid})" for n, uuid in enumerate(uuids)
            )
            pod["status"] = {"phase": "Succeeded"}
            return
        program = Path(command[-1]).name
        answer = self.answers[program](env, uuids)
        self.logs[name] = json.dumps({"schema": "gpusmith.workload/1", "program": program, **answer})
        if program == "hold_gpu.py" or (answer["ok"] and "GPUSMITH_HOLD_S" in env):
            self.given[name] = uuids
            pod["status"] = {"phase": "Running"}
        else:
            pod["status"] = {"phase": "Succeeded" if answer["ok"] else "Failed"}

    def get(self, path: str) -> Any:
        """Namespaces and their service account; PriorityClasses."""
        kind, name = path.split("/")[-2:]
        return (
            self.classes.get(name) if kind == "priorityclasses" else self.namespaces.get(path.split("/")[4])
        )

    def patch(self, path: str, body: dict[str, Any], manager: str) -> None:
        """Signs of life."""
        assert path.split("/")[-1] in self.namespaces
        self.beats += 1

    def serves(self, version: str) -> bool:
        """No Dynamic Resource Allocation."""
        return False

    def items(self, path: str, _cut: Any = None, /, **query: str) -> list[Any]:
        """Pods, and events."""
        if path.endswith("/events"):
            return self.events
        with self.lock:
            return copy.deepcopy(list(self.pods.values()))

    def delete(self, path: str, grace_s: int | None = None) -> None:
        """A pod gives its GPU back."""
        with self.lock:
            kind, name = path.split("/")[-2:]
            if kind == "namespaces":
                self.namespaces.pop(name, None)
                self.pods.clear()
                self.given.clear()
            else:
                name += "-x" if kind == "jobs" else ""
                self.pods.pop(name, None)
                self.given.pop(name, None)
            self.schedule()

    def log(self, namespace: str, pod: str, container: str) -> str:
        """What its program printed."""
        return self.logs.get(pod, "")
