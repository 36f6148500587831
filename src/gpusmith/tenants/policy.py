"""The admission policy for pods of a cluster with GPUs: who wants a GPU asks for it, and GPU nodes are for those.

The API server judges by it when a pod is made, or gets a container to debug it. What runs is left alone: its labels, status and
finalizers change as before, and it can be evicted.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpusmith.cluster.api import Object
from gpusmith.cluster.snapshot import GPU_RESOURCES, POLICIES
from gpusmith.cluster.tenants import SERVES_NODES
from gpusmith.names import GPU_RESOURCE, GPU_TAINT, POLICY, PURPOSE, PURPOSE_LABEL, TRIAL_LABEL

GROUP = "admissionregistration.k8s.io/v1"
NONE, WARN, DENY = "none", "warn", "deny"
ACTIONS = {WARN: ["Warn", "Audit"], DENY: ["Deny", "Audit"]}
ALWAYS_EXEMPT = "kube-system"
CAPABILITIES = ("SYS_ADMIN", "SYS_RAWIO", "MKNOD", "ALL")
FOLDERS = (
    "/dev",
    "/var/lib/kubelet",
    *(f"{run}/{name}" for run in ("/run", "/var/run") for name in ("containerd", "cdi")),
    "/var/lib/containerd",
    "/etc/cdi",
)
"""Of a node: its devices, and those by which kubelet, runtime and CDI give devices to containers."""
HARMLESS = ("/dev/shm", "/dev/hugepages", "/dev/log")  # noqa: S108 - of nodes, and not ours
"""Below one of them, without a device in them."""
CLAIMED = "deviceclass.resource.kubernetes.io/"
"""Beginning of extended resources that a claim stands behind (Kubernetes 1.36, staging/src/k8s.io/api/resource/v1/types.go)."""

_HAS_NO_VALUE = -1
_EPHEMERAL = "object.spec.?ephemeralContainers.orValue([])"
_OLD = "oldObject.spec.?ephemeralContainers.orValue([])"
_INIT = "object.spec.?initContainers.orValue([])"
_GPUS = f'quantity(c.?resources.?limits[?"{GPU_RESOURCE}"].orValue("0")).asInteger()'


@dataclass(frozen=True)
class Policy:
    """What is to be bound.

    Attributes:
        mode: NONE, WARN or DENY.
        exempt: namespaces whose pods it does not judge, besides Kubernetes' own.
        teams: for each team's namespace how many GPUs one pod may ask for; None without a limit. DaemonSets of teams are judged.
        trial: mark of the pods that it is tried on, and which alone it judges then; empty for all pods.
    """

    mode: str = NONE
    exempt: Collection[str] = ()
    teams: Mapping[str, int | None] = field(default_factory=dict)
    trial: str = ""

    @property
    def name(self) -> str:
        """Of policy and binding."""
        return f"{POLICY}-{self.trial}" if self.trial else POLICY

    def objects(self, labels: Mapping[str, str]) -> list[Object]:
        """Policy and binding. Defaults of the API server are written out, so that both can be compared."""
        if self.mode == NONE:
            return []
        specs = (self.spec, {"policyName": self.name, "validationActions": ACTIONS[self.mode]})
        return [
            {
                "apiVersion": GROUP,
                "kind": kind,
                "metadata": {"name": self.name, "labels": dict(labels)},
                "spec": spec,
            }
            for kind, spec in zip(reversed(POLICIES), specs, strict=True)
        ]

    @property
    def spec(self) -> Object:
        """Of the policy."""
        exempt = sorted({ALWAYS_EXEMPT, *self.exempt})
        spaces = [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": exempt},
            {"key": PURPOSE_LABEL, "operator": "NotIn", "values": [PURPOSE]},
            # What is bound already must not answer where another one is tried.
            *([] if self.trial else [{"key": TRIAL_LABEL, "operator": "DoesNotExist"}]),
        ]
        return {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "matchPolicy": "Equivalent",
                "namespaceSelector": {"matchExpressions": spaces},
                "objectSelector": {"matchLabels": {TRIAL_LABEL: self.trial}} if self.trial else {},
                "resourceRules": [_rule("CREATE", "pods"), _rule("UPDATE", "pods/ephemeralcontainers")],
            },
            "matchConditions": [{"name": "serves-no-node", "expression": self._serves_no_node}],
            "variables": [{"name": name, "expression": text} for name, text in self._variables.items()],
            "validations": [
                {"expression": text, "messageExpression": message, "reason": "Forbidden"}
                for text, message in _VALIDATIONS
            ],
        }

    @property
    def _serves_no_node(self) -> str:
        """Agents of networks, storage and monitoring run on GPU nodes, as DaemonSets and as static pods. Teams have none."""
        owned = f"o.?controller.orValue(false) && o.kind in {_listed(SERVES_NODES)}"
        return (
            f"request.namespace in {_listed(sorted(self.teams))} ||"
            f" !object.metadata.?ownerReferences.orValue([]).exists(o, {owned})"
        )

    @property
    def _variables(self) -> dict[str, str]:
        most = {name: count for name, count in sorted(self.teams.items()) if count is not None}
        return {
            "containers": f'request.operation == "CREATE" ? object.spec.containers.map(c, dyn(c)) + {_INIT}.map(c, dyn(c))'
            f" : {_EPHEMERAL}.filter(e, !{_OLD}.exists(o, o.name == e.name)).map(c, dyn(c))",
            "privileged": "variables.containers.filter(c, c.?securityContext.?privileged.orValue(false)).map(c, string(c.name))",
            # The runtime takes them in small letters as well, and some runtimes with CAP_ before them.
            "capable": "variables.containers.filter(c, c.?securityContext.?capabilities.?add.orValue([]).exists(x,"
            f' x.upperAscii().replace("CAP_", "") in {_listed(CAPABILITIES)})).map(c, string(c.name))',
            "folders": "object.spec.?volumes.orValue([]).filter(v, has(v.hostPath)).map(v,"
            ' "/" + v.hostPath.path.split("/").filter(s, !(s in ["", "."])).map(s, s + "/").join(""))',
            "mounted": f"variables.folders.filter(p, {_listed(_closed(FOLDERS))}.exists(f, f.startsWith(p) || p.startsWith(f))"
            f" && !{_listed(_closed(HARMLESS))}.exists(f, p.startsWith(f)))",
            "tolerates": "object.spec.?tolerations.orValue([]).exists(t,"
            f' t.?key.orValue("") in ["", "{GPU_TAINT}"] && t.?effect.orValue("") in ["", "NoSchedule"])',
            "asks": "object.spec.?resourceClaims.orValue([]).size() > 0 || variables.containers.exists(c,"
            " c.?resources.?limits.orValue({}).exists(k,"
            f' (k.startsWith("{GPU_RESOURCES}") || k.startsWith("{CLAIMED}"))'
            ' && quantity(c.resources.limits[k]).isGreaterThan(quantity("0"))))',
            # Sidecars go on beside the containers; another init container has ended before them.
            "gpus": f'[(object.spec.containers.map(c, dyn(c)) + {_INIT}.filter(c, c.?restartPolicy.orValue("") == "Always")'
            f".map(c, dyn(c))).map(c, {_GPUS}).sum()] + {_INIT}.map(c, {_GPUS})",
            "most": f"{json.dumps(most)}[?request.namespace].orValue({_HAS_NO_VALUE})",
        }


def _names(words: str, variable: str) -> str:
    """A sentence of CEL that ends with the names in a list."""
    return f"""{json.dumps(words + ": '")} + variables.{variable}.join("', '") + "'.\""""


_CREATED = 'request.operation != "CREATE" || '
_VALIDATIONS = (
    (
        "variables.privileged.size() == 0",
        _names("Privileged containers reach all GPUs of their node, and no quota counts them", "privileged"),
    ),
    (
        "variables.capable.size() == 0",
        _names(
            f"Containers with one of {', '.join(CAPABILITIES)} reach GPUs that no quota counts", "capable"
        ),
    ),
    (
        f"{_CREATED}variables.mounted.size() == 0",
        _names(
            "Volumes with devices of the node, or what gives devices to containers, reach GPUs that no quota counts",
            "mounted",
        ),
    ),
    (
        f"{_CREATED}!variables.tolerates || variables.asks",
        json.dumps(f"The pod tolerates the taint '{GPU_TAINT}' of GPU nodes, and asks for no GPU."),
    ),
    (
        f"{_CREATED}variables.most == {_HAS_NO_VALUE} || variables.gpus.all(n, n <= variables.most)",
        """"A pod of namespace '" + request.namespace + "' may ask for " + string(variables.most)\
 + " GPUs, and this one asks for " + string(variables.gpus.filter(n, n > variables.most)[0]) + ".\"""",
    ),
)
"""What must hold, and what is said if it does not."""


def _listed(names: Collection[str]) -> str:
    """A list of CEL, which has JSON's."""
    return json.dumps(list(names))


def _closed(folders: Collection[str]) -> list[str]:
    """With a slash at their ends, so that '/dev' is no beginning of '/development'."""
    return [f"{name}/" for name in folders]


def _rule(operation: str, resource: str) -> dict[str, Any]:
    return {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": [operation],
        "resources": [resource],
        "scope": "Namespaced",
    }
