"""Objects that make a team's limits: its namespace, quotas and members, and PriorityClasses and policy of the cluster.

A resource that a quota does not name is unlimited. So each team's quota names everything that a team may be given, and what nodes
of the inventory hand out: what is not given to a team is 0.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpusmith.cluster.api import Object
from gpusmith.names import (
    CLAIMS_QUOTA,
    DEVICE_CLASS,
    GPU_RESOURCE,
    MANAGED_BY,
    MANAGER,
    RECLAIM_ALLOWED,
    RECLAIM_LABEL,
    TENANT_LABEL,
)
from gpusmith.tenants.policy import NONE, Policy
from gpusmith.wanted.layouts import RESOURCES
from gpusmith.wanted.node import NodeWanted

REQUESTS = "requests."
"""What the keys of quotas begin with that count extended resources (Kubernetes 1.36, pkg/quota/v1/evaluator/core/pods.go)."""
QUOTA, MEMBERS = "gpusmith-gpus", "gpusmith-members"
RBAC = "rbac.authorization.k8s.io"
ROLE = "edit"
"""Kubernetes' own ClusterRole: all that runs in a namespace, but no quotas, limit ranges, roles and bindings."""
POD_SECURITY = "baseline"
"""Its pods get no GPU that nobody counts: none is privileged or has devices of the host. They may run as root."""
DEFAULTS, NETWORK = "gpusmith-defaults", "gpusmith-isolated"
ASKED = {"cpu": "100m", "memory": "128Mi"}
"""What containers ask for that say nothing: with a quota of it, the API server refuses pods that ask for none."""
NEVER = "Never"
"""Preemption policy of classes whose pods end nobody's; value and policy of a class cannot be changed."""
OF_ALL = "all"
"""Value of the label of what is no single team's."""

Rows = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Tenants:
    """What the inventory lets teams have.

    Attributes:
        teams: 'gpu_tenants_teams', by the name of the team's namespace.
        classes: 'gpu_tenants_classes', by the name of the PriorityClass.
        offered: resources that nodes of the inventory hand out.
        mode: 'gpu_tenants_policy'.
        exempt: namespaces whose pods the policy does not judge.
    """

    teams: Rows = field(default_factory=dict)
    classes: Rows = field(default_factory=dict)
    offered: Collection[str] = ()
    mode: str = NONE
    exempt: Collection[str] = ()

    @property
    def policy(self) -> Policy:
        """What the API server refuses pods by."""
        return Policy(
            self.mode, self.exempt, {name: team.get("gpus_per_pod") for name, team in self.teams.items()}
        )

    @property
    def policies(self) -> list[Object]:
        """The same as objects: none, or policy and binding."""
        return self.policy.objects(_labels(OF_ALL))

    @property
    def resources(self) -> list[str]:
        """Everything that a quota has to name."""
        named = (name for team in self.teams.values() for name in team.get("resources") or ())
        return sorted({*RESOURCES, *self.offered, *named})

    def given(self, name: str, resource: str) -> int:
        """How many of a resource a team may have at the same time."""
        team = self.teams[name]
        named = {GPU_RESOURCE: team.get("gpus") or 0, **(team.get("resources") or {})}
        return int(named.get(resource, 0))

    def hard(self, name: str) -> dict[str, str]:
        """What a team may have at the same time, by the keys of its quota."""
        team = self.teams[name]
        limits = {_key(resource): str(self.given(name, resource)) for resource in self.resources}
        limits |= {REQUESTS + name: str(team[name]) for name in ASKED if team.get(name) is not None}
        return {**limits, **({"pods": str(team["pods"])} if team.get("pods") is not None else {})}

    @property
    def quotas(self) -> list[Object]:
        """Of all teams: all that each may have, and what of it with each PriorityClass, where the team says so."""
        made = []
        for name, team in self.teams.items():
            made.append(_object("v1", "ResourceQuota", QUOTA, name, spec={"hard": self.hard(name)}))
            of_class = team.get("gpus_of_class") or {}
            for row in sorted({*self.classes, *of_class}) if of_class else ():
                scope = {"scopeName": "PriorityClass", "operator": "In", "values": [row]}
                spec = {
                    "hard": {REQUESTS + GPU_RESOURCE: str(of_class.get(row, 0))},
                    "scopeSelector": {"matchExpressions": [scope]},
                }
                made.append(_object("v1", "ResourceQuota", f"{QUOTA}-{row}", name, spec=spec))
        return made

    @property
    def objects(self) -> list[Object]:
        """All of them."""
        return [
            *(_class(name, row) for name, row in self.classes.items()),
            *(_namespace(name, team) for name, team in self.teams.items()),
            *self.quotas,
            *(_members(name, team["members"]) for name, team in self.teams.items() if team.get("members")),
            *(_defaults(name, team) for name, team in self.teams.items() if ASKED.keys() & team.keys()),
            *(_isolated(name) for name, team in self.teams.items() if team.get("network") == "isolated"),
            *self.policies,
        ]


def of_hosts(hosts: Sequence[NodeWanted]) -> Tenants:
    """What all hosts of an inventory want: one value, or the playbook refuses it."""
    if not hosts:
        return Tenants()
    first = hosts[0]
    wanted, offered = first.tenants, sorted({host.layout.resource for host in hosts})
    exempt = (*wanted.policy_exempt, first.operands.namespace, first.monitoring.namespace)
    return Tenants(wanted.teams, wanted.classes, offered, wanted.policy, exempt)


def _key(resource: str) -> str:
    """How a quota calls it."""
    return CLAIMS_QUOTA if resource == DEVICE_CLASS else REQUESTS + resource


def _object(version: str, kind: str, name: str, namespace: str, **content: Any) -> Object:
    metadata = {"name": name, "namespace": namespace, "labels": _labels(namespace)}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **content}


def _labels(team: str) -> dict[str, str]:
    return {MANAGED_BY: MANAGER, TENANT_LABEL: team}


def _class(name: str, row: Mapping[str, Any]) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name, "labels": _labels(OF_ALL)},
        "value": row["value"],
        "globalDefault": bool(row.get("default")),
        "preemptionPolicy": "PreemptLowerPriority" if row.get("preempts") else NEVER,
        "description": "By 'gpu_tenants_classes' of gpusmith's inventory.",
    }


def _namespace(name: str, team: Mapping[str, Any]) -> Object:
    standard = {"pod-security.kubernetes.io/enforce": team.get("pod_security") or POD_SECURITY}
    standard |= {RECLAIM_LABEL: RECLAIM_ALLOWED} if team.get("reclaim") else {}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": _labels(name) | standard},
    }


def _defaults(name: str, team: Mapping[str, Any]) -> Object:
    given = {key: value for key, value in ASKED.items() if key in team}
    return _object(
        "v1", "LimitRange", DEFAULTS, name, spec={"limits": [{"type": "Container", "defaultRequest": given}]}
    )


def _isolated(name: str) -> Object:
    """Its pods take connections from its own pods alone."""
    spec = {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": {}}]}]}
    return _object("networking.k8s.io/v1", "NetworkPolicy", NETWORK, name, spec=spec)


def _members(name: str, members: Iterable[Mapping[str, str]]) -> Object:
    subjects = [
        {"kind": row["kind"], "name": row["name"], "namespace": row.get("namespace") or name}
        if row["kind"] == "ServiceAccount"
        else {"kind": row["kind"], "name": row["name"], "apiGroup": RBAC}
        for row in members
    ]
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": ROLE}
    return _object(f"{RBAC}/v1", "RoleBinding", MEMBERS, name, roleRef=role, subjects=subjects)
