"""What an upgrade would do, before anything happens: who goes when, who does not and why, and whom it will wait for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from gpusmith.built.key import Key
from gpusmith.change.budget import Fleet, Rules, limits
from gpusmith.change.forecast import Timing, forecast
from gpusmith.cluster.api import Object
from gpusmith.errors import Refusal
from gpusmith.preflight.words import Tables
from gpusmith.upgrade.disruption import Claimant, claimants
from gpusmith.upgrade.hosts import Action, Asked, Look, judge, origin, refuse

SCHEMA = "gpusmith.upgrade-plan/1"
GOES = (Action.UPGRADE, Action.CHANGE, Action.RESUME)


@dataclass(frozen=True)
class Row:
    """The plan of one host.

    Attributes:
        name: in the inventory.
        node: name of its Node.
        origin: version that it has; empty if nobody knows.
        target: version that it is to get.
        action: what becomes of it.
        reason: why, where that is not plain.
        model: of its GPUs, as the budget counts them.
        gpus: how many.
        wave: when it goes, from 1; None if it does not, or not as the cluster is now.
        pods: that use its GPUs.
        holders: processes without a pod that use its driver.
        reboot: why it is rebooted.
    """

    name: str
    node: str
    origin: str
    target: str
    action: Action
    reason: str = ""
    model: str = ""
    gpus: int = 0
    wave: int | None = None
    pods: tuple[Claimant, ...] = ()
    holders: tuple[str, ...] = ()
    reboot: str = ""

    @property
    def goes(self) -> bool:
        """Whether it is changed."""
        return self.action in GOES


@dataclass(frozen=True)
class Plan:
    """All of it.

    Attributes:
        rules: of the run.
        rows: hosts in the order of the run, then those that stay as they are.
        fleet: all nodes that the budget counts.
        refused: by host, all reasons.
        seconds: estimate of the whole run.
        timing: what it rests on.
    """

    rules: Rules
    rows: tuple[Row, ...]
    fleet: Fleet
    refused: Mapping[str, Sequence[Refusal]]
    seconds: float
    timing: Timing

    @property
    def queue(self) -> tuple[str, ...]:
        """Names of Nodes, in the order in which they are to ask for admission."""
        return tuple(row.node for row in self.rows if row.goes)

    @property
    def would_change(self) -> bool:
        """Whether the run would change anything."""
        return bool(self.queue) and not self.refused


def make(
    looks: Sequence[Look],
    fleet: Fleet,
    rules: Rules,
    asked: Asked,
    budgets: Sequence[Object],
    tables: Tables,
    timing: Timing | None = None,
) -> Plan:
    """The plan of a run.

    Args:
        looks: hosts of `-l`, in the order of the inventory.
        fleet: all GPU nodes of the inventory.
        rules: of the run.
        asked: what was asked for besides.
        budgets: PodDisruptionBudgets of the cluster.
        tables: what is known of GPU models and of versions.
        timing: for the estimate.
    """
    verdicts = {look.name: judge(look, fleet, asked, tables) for look in looks}
    going = [look for look in looks if verdicts[look.name].action in GOES]
    too_small = limits(rules.max_unavailable, fleet, [look.node_name for look in going])
    verdicts |= {
        look.name: refuse(too_small[look.node_name]) for look in going if look.node_name in too_small
    }
    rows = []
    for look in looks:
        member, verdict = fleet.members.get(look.node_name), verdicts[look.name]
        rows.append(
            Row(
                name=look.name,
                node=look.node_name,
                origin=origin(look),
                target=look.target,
                action=verdict.action,
                reason=verdict.reason,
                model=member.model if member else "",
                gpus=member.gpus if member else 0,
                pods=claimants(look.pods, look.claims, budgets, asked.namespace, look.pod_uids),
                holders=tuple(user.words for user in look.users if not user.pod_uid),
                reboot=look.reboot,
            )
        )
    # Half-done nodes first: until they are finished they take room in the budget.
    rows.sort(key=lambda row: (not row.goes, row.action is not Action.RESUME))
    timing = timing or Timing()
    going_now = {row.node: bool(row.reboot) for row in rows if row.goes}
    waves, seconds = forecast(going_now, fleet, rules, asked.now, timing)
    builders = _builders([row.name for row in rows if row.goes], looks)
    placed = [
        replace(row, wave=wave, reason="; ".join(filter(None, (row.reason, why, builders.get(row.name)))))
        for row in rows
        for wave, why in [waves.get(row.node, (None, ""))]
    ]
    refused = {name: verdict.refusals for name, verdict in verdicts.items() if verdict.refusals}
    return Plan(rules, tuple(placed), fleet, refused, seconds, timing)


def _builders(going: Sequence[str], looks: Sequence[Look]) -> dict[str, str]:
    """By host who compiles the modules, where one node does for several: the first of them that goes."""
    by_name = {look.name: look.builds for look in looks}
    first: dict[Key, str] = {}
    found = {}
    for name in going:
        key = by_name[name]
        if key is None:
            continue
        builder = first.setdefault(key, name)
        found[name] = (
            "compiles the modules, unless they are kept already"
            if builder == name
            else f"takes the modules of '{builder}'"
        )
    return found


def counted(plan: Plan) -> dict[str, dict[str, Any]]:
    """By model of the plan's nodes, how the budget stands."""
    found = {}
    for model in sorted({row.model for row in plan.rows if row.model}):
        members, most = plan.fleet.of_model(model), plan.fleet.limit(plan.rules.max_unavailable, model)
        found[model] = {
            "gpus": sum(member.gpus for member in members),
            "limit": None if isinstance(most, Refusal) else most,
            "out": {member.name: member.out for member in members if member.out},
        }
    return found


def to_json(plan: Plan) -> dict[str, Any]:
    """The content of plan.json."""
    return {
        "schema": SCHEMA,
        "target": plan.rules.target,
        "would_change": plan.would_change,
        "nodes": [
            {"from" if key == "origin" else key: value for key, value in asdict(row).items()}
            for row in plan.rows
        ],
        "budget": {"max_unavailable": plan.rules.max_unavailable, "models": counted(plan)},
        "estimate": {"seconds": plan.seconds, "soak_s": plan.rules.soak_s, **asdict(plan.timing)},
        "refused": [
            {"node": name, "message": row.message, "hint": row.hint}
            for name, found in plan.refused.items()
            for row in found
        ],
    }
