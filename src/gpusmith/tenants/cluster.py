"""What a cluster has: what is not taken over, what the inventory has no more, what a policy would refuse, and how many GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from gpusmith.cluster.api import Cluster, Object
from gpusmith.cluster.snapshot import POLICIES
from gpusmith.cluster.views import NODES, offered
from gpusmith.errors import InputError, Refusal
from gpusmith.inventory.tenants import EXEMPT, MODE, TEAMS
from gpusmith.names import DEVICE_CLASS, POLICY, TENANT_LABEL
from gpusmith.tenants import policy, trial
from gpusmith.tenants.objects import NEVER, OF_ALL, Tenants
from gpusmith.wording import quoted

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
NAMESPACES = "/api/v1/namespaces"
LEFT = {
    "ResourceQuota": "/api/v1/resourcequotas",
    "LimitRange": "/api/v1/limitranges",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/networkpolicies",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/rolebindings",
    **POLICIES,
}
"""Lists of what goes with a team that leaves the inventory, and of the policy."""
MOST_NAMED = 20


def _is_ours(found: Object) -> bool:
    return TENANT_LABEL in (found["metadata"].get("labels") or {})


def refusals(cluster: Cluster, wanted: Tenants) -> Iterator[Refusal]:
    """What would take something over, or cannot be changed.

    Raises:
        ToolError: the cluster does not answer, or refuses.
    """
    for name, team in wanted.teams.items():
        found = cluster.get(f"{NAMESPACES}/{name}")
        if found and not _is_ours(found) and not team.get("adopt"):
            yield Refusal(
                f"Namespace '{name}' is there, and gpusmith did not make it.",
                "Give the team another one, or write 'adopt: true' for it: its pods get quotas and a Pod Security Standard.",
            )
    there = {row["metadata"]["name"]: row for row in cluster.items(CLASSES)}
    for name, row in wanted.classes.items():
        found = there.get(name)
        if found and not _is_ours(found):
            yield Refusal(
                f"PriorityClass '{name}' is there, and gpusmith did not make it.",
                "Give the class another name.",
            )
        elif found and found["value"] != row["value"]:
            yield _fixed(name, f"has the value {found['value']}, not {row['value']}")
        elif found and (found.get("preemptionPolicy") == NEVER) is bool(row.get("preempts")):
            yield _fixed(name, f"does {'not end' if row.get('preempts') else 'end'} pods of less priority")
    for name, team in wanted.teams.items():
        unknown = sorted(set(team.get("gpus_of_class") or ()) - set(wanted.classes) - set(there))
        if unknown:
            yield Refusal(
                f"Team '{name}' has GPUs of PriorityClass {quoted(unknown)}, which neither the inventory nor the cluster has.",
                "Add it to 'gpu_tenants_classes'.",
            )
    for name in sorted(row for row, most in wanted.policy.teams.items() if most is not None):
        if wanted.mode == policy.NONE or name in wanted.exempt:
            yield Refusal(
                f"'gpus_per_pod' of team '{name}' would do nothing: the policy is what refuses such pods.",
                f"Set '{MODE}' to 'warn' or 'deny', and leave '{name}' out of '{EXEMPT}'.",
            )
    if wanted.policies and not POLICIES.keys() <= cluster.kinds(policy.GROUP).keys():
        yield Refusal(
            f"The cluster has no ValidatingAdmissionPolicy of '{policy.GROUP}', which Kubernetes has since 1.30.",
            f"Set '{MODE}: none', or upgrade Kubernetes.",
        )


def _fixed(name: str, words: str) -> Refusal:
    return Refusal(
        f"PriorityClass '{name}' {words}, which cannot be changed.",
        f"If no pod names it: 'kubectl delete priorityclass {name}', then run this again.",
    )


def judged(cluster: Cluster, wanted: Tenants, check: bool) -> list[str]:
    """What runs against a policy that is to be bound, in words; all that forbids may be bound if nothing does.

    Args:
        cluster: the API.
        wanted: what the inventory says.
        check: whether nothing may be made, so that the API server cannot be asked.

    Raises:
        InputError: pods that run would be refused if they were made anew.
        ToolError: the API server does not judge by the policy as it should, or does not answer.
    """
    forbids = wanted.mode == policy.DENY
    if not wanted.policies or (forbids and is_bound(cluster, wanted)):
        return []
    if check:
        return [f"Which pods that run policy '{POLICY}' would refuse, a run without --check says."]
    found = trial.judge(cluster, wanted.policy)
    untold = [
        f"Whether policy '{POLICY}' refuses pods of {maker}, nobody could say: {why}"
        for maker, why in found.untold.items()
    ]
    rows = [f"{maker}: {why}" for maker, why in found.refused.items()]
    if rows and forbids:
        raise InputError(
            f"Policy '{POLICY}' was not bound: it would refuse pods that run, as soon as they are made anew. Change or end them,"
            f" add their namespaces to '{EXEMPT}', or set '{MODE}: warn'.\n" + "\n".join(_first(rows))
        )
    return [*_first([f"Policy '{POLICY}' would refuse {row}" for row in rows]), *_first(untold)]


def _first(rows: list[str]) -> list[str]:
    more = len(rows) - MOST_NAMED
    return rows if more <= 0 else [*rows[:MOST_NAMED], f"And {more} more."]


def is_bound(cluster: Cluster, wanted: Tenants) -> bool:
    """Whether policy and binding are what the inventory says."""
    found = (cluster.get(f"{LEFT[row['kind']]}/{row['metadata']['name']}") for row in wanted.policies)
    return all(
        there and there["spec"] == row["spec"] for there, row in zip(found, wanted.policies, strict=True)
    )


def overcommitted(cluster: Cluster, wanted: Tenants) -> list[str]:
    """What all teams may hold together, and nodes do not offer, in words. GPUs by claims are not counted.

    Raises:
        ToolError: as above.
    """
    nodes = [offered(node) for node in cluster.items(NODES)] if wanted.teams else []
    rows = [
        (
            resource,
            sum(wanted.given(name, resource) for name in wanted.teams),
            sum(node.get(resource, 0) for node in nodes),
        )
        for resource in wanted.resources
        if resource != DEVICE_CLASS
    ]
    return [
        f"Teams may hold {given} '{resource}' together, and the nodes offer {there}: a pod within its quota may wait for others."
        for resource, given, there in rows
        if given > there
    ]


def forgotten(cluster: Cluster, wanted: Tenants) -> list[Refusal]:
    """Teams of a cluster whose inventory has none: it may be another one's, or lack a file.

    Raises:
        ToolError: as above.
    """
    there = [] if wanted.teams else cluster.items(LEFT["ResourceQuota"], labelSelector=TENANT_LABEL)
    teams = sorted({row["metadata"]["namespace"] for row in there})
    if not teams:
        return []
    return [
        Refusal(
            f"The inventory has no '{TEAMS}', and the cluster has quotas of {quoted(teams)}.",
            "Put them into it. To take them away: ansible-playbook -i INVENTORY playbooks/remove_tenants.yml",
        )
    ]


def left(cluster: Cluster, wanted: Tenants) -> tuple[list[Object], list[str]]:
    """What goes, and what stays although the inventory has it no more, in words.

    Raises:
        ToolError: as above.
    """
    keep = {
        (row["kind"], row["metadata"].get("namespace"), row["metadata"]["name"]) for row in wanted.objects
    }
    gone = [
        {"apiVersion": _version(path), "kind": kind, "metadata": row["metadata"]}
        for kind, path in LEFT.items()
        if kind in cluster.kinds(_version(path))
        for row in cluster.items(path, labelSelector=TENANT_LABEL)
        if (kind, row["metadata"].get("namespace"), row["metadata"]["name"]) not in keep
    ]
    spaces = [row["metadata"]["name"] for row in cluster.items(NAMESPACES, labelSelector=TENANT_LABEL)]
    former = sorted(set(spaces) - set(wanted.teams))
    notes = [
        f"Namespace '{name}' stays with its pods; nothing limits its GPUs. If nobody needs it: kubectl delete namespace {name}"
        for name in former
    ]
    classes = cluster.items(CLASSES, labelSelector=f"{TENANT_LABEL}={OF_ALL}")
    notes += [
        f"PriorityClass '{name}' stays, since pods may name it. If none does: kubectl delete priorityclass {name}"
        for name in sorted({row["metadata"]["name"] for row in classes} - set(wanted.classes))
    ]
    return gone, notes


def _version(path: str) -> str:
    return "/".join(path.split("/")[2:-1])
