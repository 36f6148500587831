"""Limits of teams on GPUs that do nothing, or more than their author thinks: Kubernetes takes them without a word."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kubernetes.utils.quantity import parse_quantity

from gpusmith.checks.findings import CannotAsk, NotApplicable
from gpusmith.checks.register import check
from gpusmith.checks.whole_cluster import WholeCluster
from gpusmith.cluster.api import Object
from gpusmith.cluster.snapshot import GPU_RESOURCES
from gpusmith.inventory.tenants import MODE, TEAMS
from gpusmith.names import CLAIMS_QUOTA
from gpusmith.problems import Problem
from gpusmith.tenants.objects import REQUESTS, of_hosts
from gpusmith.wording import quoted

LIMITS = "limits."


def _title(found: Object) -> str:
    return f"{found['metadata']['namespace']}/{found['metadata']['name']}"


def _listed(found: tuple[Object, ...] | None, what: str) -> tuple[Object, ...]:
    if found is None:
        raise CannotAsk(
            f"The suite's account may not list {what}: apply validation/rbac.yml again,"
            " or docs/rbac-any-cluster.yml where nobody set the cluster up with gpusmith."
        )
    return found


def _quotas(facts: WholeCluster) -> tuple[Object, ...]:
    return _listed(facts.snapshot.resource_quotas, "resource quotas")


@check(
    "cluster.gpu-quotas",
    place=32,
    proves="each quota of GPUs is one that Kubernetes enforces",
    fails_when="a ResourceQuota names GPUs without 'requests.', which the API server takes and never enforces",
    do="let the quota say 'requests.nvidia.com/gpu', the only form that counts; until then the team has no limit",
    per_node=False,
    evidence=lambda facts: {
        "quotas": {_title(row): row["spec"]["hard"] for row in facts.snapshot.resource_quotas or ()}
    },
)
def gpu_quotas(facts: WholeCluster) -> list[Problem]:
    """Keys of extended resources count with 'requests.' alone (Kubernetes 1.36, pkg/quota/v1/evaluator/core/pods.go)."""
    problems = []
    for quota in _quotas(facts):
        name, hard = _title(quota), quota["spec"]["hard"]
        for key, value in sorted(hard.items()):
            right = REQUESTS + key.removeprefix(LIMITS)
            # Beside the right one, with the same number, it does no harm.
            if key.startswith((REQUESTS, CLAIMS_QUOTA)) or hard.get(right) == value:
                continue
            problems.append(
                Problem(
                    f"Quota '{name}' limits '{key}' to {value}, which Kubernetes accepts and never enforces.",
                    f"Use '{right}' in its place.",
                    {"quota": name, "hard": dict(hard)},
                )
            )
    return problems


@check(
    "cluster.gpu-limit-ranges",
    place=34,
    proves="no LimitRange gives GPUs to pods that ask for none, or refuses pods without",
    fails_when="a LimitRange has GPUs in 'default', 'defaultRequest', 'max' or 'min', in a form that concerns pods without",
    do="limit GPUs by a ResourceQuota, and take them out of the LimitRange; pods that run keep what they have",
    per_node=False,
    evidence=lambda facts: {
        "limit_ranges": {_title(row): row["spec"]["limits"] for row in facts.snapshot.limit_ranges or ()}
    },
)
def gpu_limit_ranges(facts: WholeCluster) -> list[Problem]:
    """What the API server makes of it: it completes 'default' by 'max', and 'defaultRequest' by 'default' and 'min'."""
    return [
        Problem(
            f"LimitRange '{_title(found)}' {effect}.",
            "Take it out, and limit GPUs by a ResourceQuota.",
            {"limit_range": _title(found), "limits": row},
        )
        for found in _listed(facts.snapshot.limit_ranges, "limit ranges")
        for row in found["spec"]["limits"]
        for effect in _effects(row)
    ]


def _effects(row: Mapping[str, Any]) -> Iterator[str]:
    """What a row does to pods that ask for no GPU, in words."""
    kind = str(row.get("type"))
    for resource in sorted({key for field in row.values() if isinstance(field, dict) for key in field}):
        if not resource.startswith(GPU_RESOURCES):
            continue
        at = {
            field: str((row.get(field) or {}).get(resource, ""))
            for field in ("default", "defaultRequest", "max", "min")
        }
        if kind == "Container" and at["default"] not in ("", "0"):
            yield f"gives {at['default']} '{resource}' to each container that asks for none"
        elif kind == "Container" and ({at["defaultRequest"], at["min"]} - {"", "0"}):
            yield f"refuses containers without a limit of '{resource}'"
        elif kind == "Pod" and (at["max"] or at["min"]):
            yield f"refuses pods without '{resource}'"


@check(
    "cluster.tenants",
    place=36,
    proves="each team of the inventory has the quotas that the inventory gives it, and holds no more GPUs than that",
    fails_when="a quota is missing or says something else, or a team holds more than it says, as after a cut",
    do="run playbooks/set_tenants.yml; a team that holds more keeps it until its pods end",
    per_node=False,
    managed_only=True,
    evidence=lambda facts: {
        "quotas": {_title(row): row["spec"] for row in facts.snapshot.resource_quotas or ()}
    },
)
def tenants(facts: WholeCluster) -> list[Problem]:
    """What role gpu_tenants makes is there, and kept."""
    wanted = of_hosts(facts.hosts)
    if not wanted.teams:
        raise NotApplicable(f"The inventory has no teams ('{TEAMS}').")
    there = {_title(row): row["spec"] for row in _quotas(facts)}
    return [problem for quota in wanted.quotas for problem in _kept(quota, there.get(_title(quota)))]


def _kept(wanted: Object, found: Mapping[str, Mapping[str, str]] | None) -> Iterator[Problem]:
    """What is wrong with one of our quotas; of several numbers that differ, the first is named."""
    name, site = _title(wanted), "Run playbooks/set_tenants.yml."
    if found is None:
        yield Problem(f"There is no quota '{name}'.", site, {"quota": name})
        return
    evidence = {"quota": name, **found}
    # Of GPUs alone: no more of a quota is read.
    keys = {
        key: value
        for key, value in wanted["spec"]["hard"].items()
        if key.removeprefix(REQUESTS).startswith((GPU_RESOURCES, CLAIMS_QUOTA))
    }
    for key, value in keys.items():
        has = found["hard"].get(key)
        # The API server writes 1000 as '1k'.
        if has is None or parse_quantity(has) != parse_quantity(value):
            says = f"gives {has}" if has else "gives no number"
            yield Problem(f"Quota '{name}' {says} of '{key}', the inventory {value}.", site, evidence)
            return
    for key, value in keys.items():
        used = found.get("used", {}).get(key, "0")
        if parse_quantity(used) > parse_quantity(value):
            yield Problem(
                f"The pods of quota '{name}' hold {used} of '{key}', and it gives {value}.",
                "Its pods came before the quota. No new one gets a GPU until some have ended.",
                evidence,
            )


@check(
    "cluster.admission-policy",
    place=38,
    proves="the API server refuses pods by the policy of the inventory, or warns of them",
    fails_when="policy or binding is missing or says something else, or is there although the inventory has none",
    do="run playbooks/set_tenants.yml",
    per_node=False,
    managed_only=True,
    evidence=lambda facts: {"policies": {_policy(row): row["spec"] for row in facts.snapshot.policies or ()}},
)
def admission_policy(facts: WholeCluster) -> list[Problem]:
    """What role gpu_tenants has bound is there, and unchanged."""
    wanted = {_policy(row): row["spec"] for row in of_hosts(facts.hosts).policies}
    # Who has none need not give the suite the right to look.
    there = (
        _listed(facts.snapshot.policies, "admission policies") if wanted else facts.snapshot.policies or ()
    )
    found = {_policy(row): row["spec"] for row in there}
    if not (wanted or found):
        raise NotApplicable(f"The inventory has no policy for pods ('{MODE}').")
    site = "Run playbooks/set_tenants.yml."
    problems = []
    for name in sorted({*wanted, *found}):
        if name not in found:
            problems.append(Problem(f"There is no {name}.", site))
        elif name not in wanted:
            problems.append(Problem(f"There is {name}, and the inventory says '{MODE}: none'.", site))
        elif found[name] != wanted[name]:
            differs = quoted(key for key in wanted[name] if found[name].get(key) != wanted[name][key])
            evidence = {"found": found[name], "wanted": wanted[name]}
            problems.append(
                Problem(
                    f"{name} is not what the inventory says, in {differs or 'what was added'}.",
                    site,
                    evidence,
                )
            )
    return problems


def _policy(found: Object) -> str:
    return f"{found['kind']} '{found['metadata']['name']}'"
