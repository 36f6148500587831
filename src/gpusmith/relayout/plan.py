"""What a layout change would do, before anything happens: who goes when, who does not and why, and whom it will wait for."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gpusmith.change import ledger as ledgers
from gpusmith.change.budget import UNPROVED, Fleet, Rules, closed, limits
from gpusmith.change.forecast import Timing, forecast
from gpusmith.change.ledger import State
from gpusmith.cluster.api import Object
from gpusmith.cluster.dra import NO_CLAIMS, Claims
from gpusmith.data.operands import DEVICE_PLUGIN
from gpusmith.errors import Refusal
from gpusmith.names import HOLD, LAYOUT_CHANGE, LAYOUT_LABEL
from gpusmith.preflight.words import refusal
from gpusmith.upgrade import unfinished
from gpusmith.upgrade.disruption import claimants
from gpusmith.upgrade.hosts import ABSENT, SILENT, Action, Verdict, refuse
from gpusmith.upgrade.plan import GOES, Plan, Row
from gpusmith.wanted import layouts
from gpusmith.wanted.node import NodeWanted
from gpusmith.wording import quoted

TIMING = Timing(node_s=300.0, reboot_s=0.0)
"""A layout takes the time of the suite."""
OF_OTHERS = refusal(
    "owner of the device plugin",
    "'gpu_operands_device_plugin' is not 'managed'",
    "a device plugin that site.yml installed",
    "Ask its owner to divide the GPUs, or leave the node out with -l.",
)


@dataclass(frozen=True)
class Look:
    """What was found out about one host of `-l`.

    Attributes:
        wanted: what the inventory wants of it.
        node: its Node object, None if the cluster has none.
        answered: whether the machine did.
        pods: on the node, all of them.
        claims: of pods.
        strangers: why it is not the machine of that Node, or may not be.
        astray: how its GPUs are divided in another way than its label says; empty if they are not.
    """

    wanted: NodeWanted
    node: Object | None
    answered: bool = True
    pods: Sequence[Object] = ()
    claims: Claims = NO_CLAIMS
    strangers: Sequence[Refusal] = ()
    astray: str = ""

    @property
    def name(self) -> str:
        """Of the host in the inventory."""
        return self.wanted.name

    @property
    def target(self) -> str:
        """Name of the layout that it is to have."""
        return self.wanted.layout.name

    @property
    def label(self) -> str:
        """Of the layout that it has."""
        return str(((self.node or {"metadata": {}})["metadata"].get("labels") or {}).get(LAYOUT_LABEL) or "")

    @property
    def change(self) -> ledgers.Ledger | None:
        """That is not finished."""
        return unfinished.open_one(self.node) if self.node else None

    @property
    def origin(self) -> str:
        """Name of the layout that it has, or had before a change that is not finished."""
        mine = self.change is not None and self.change.change == LAYOUT_CHANGE
        return self.change.origin if mine and self.change else self.label or layouts.WHOLE.name

    @property
    def back(self) -> bool:
        """Whether the inventory was set back in the middle of a change."""
        return self.change is not None and self.change.target != self.target == self.change.origin


def judge(look: Look, fleet: Fleet) -> Verdict:
    """What becomes of a host."""
    node_name = look.wanted.node_name
    if look.node is None or node_name not in fleet.members:
        return refuse(ABSENT)
    if look.strangers:
        return refuse(*look.strangers)
    if DEVICE_PLUGIN not in look.wanted.operands.ours:
        return refuse(OF_OTHERS)
    half_done = ledgers.unfinished(look.node)
    if ledgers.is_held(look.node):
        return Verdict(Action.SKIP, f"'{HOLD}' is on it" + (f"; {half_done}" if half_done else ""))
    if half_done:
        return _half_done(look, half_done)
    member = fleet[node_name]
    if look.origin == look.target and not look.astray:
        proved = member.validated(look.target)
        return Verdict(
            Action.NONE, "it has that layout" + (", validated" if proved else "; site.yml validates it")
        )
    # A change proves what nobody has proved yet, and brings back what a GPU that was divided by hand does not offer.
    shut = closed(look.node)
    if member.out and not (shut == UNPROVED or (look.astray and not shut)):
        words = "somebody else cordoned it" if member.out == "cordoned" else f"out already: {member.out}"
        return Verdict(Action.SKIP, words)
    if layouts.of_label(look.label) is None:
        return refuse(
            refusal(
                "layout",
                f"label '{LAYOUT_LABEL}' is '{look.label}', which nothing serves",
                "a layout of gpusmith's",
                f"Take it off when no pod holds its GPUs: kubectl label node {node_name} {LAYOUT_LABEL}-",
            )
        )
    if not look.answered:
        return refuse(SILENT)
    entry = member.ledger
    earlier = entry is not None and (entry.change, entry.target) == (LAYOUT_CHANGE, look.target)
    if entry is None or not earlier or entry.state is State.DONE:
        return Verdict(Action.CHANGE, look.astray)
    return Verdict(Action.CHANGE, f"an earlier try ended '{entry.state}' at {entry.since} ({entry.reason})")


def _half_done(look: Look, words: str) -> Verdict:
    entry = look.change
    if entry is None:
        reads = "a ledger that this release reads"
        return refuse(refusal("layout change", words, reads, "Use the release that wrote it."))
    if entry.change != LAYOUT_CHANGE:
        return refuse(
            refusal("unfinished change", words, "no other change", f"Finish its {entry.change} first.")
        )
    if look.target not in (entry.target, entry.origin):
        step = f"Set the inventory to '{entry.target}' and finish it, or to '{entry.origin}' and go back; then change it again."
        return refuse(refusal("unfinished layout change", words, f"one to '{look.target}'", step))
    if not look.answered:
        return refuse(SILENT)
    return Verdict(Action.RESUME, f"{words}; it goes back" if look.back else words)


def make(
    looks: Sequence[Look],
    fleet: Fleet,
    rules: Rules,
    now: dt.datetime,
    budgets: Iterable[Object],
    namespace: str,
) -> Plan:
    """The plan of a run.

    Args:
        looks: hosts of `-l`, in the order of the inventory.
        fleet: all GPU nodes of the inventory.
        rules: of the run; its target is that of the hosts that go.
        now: the time.
        budgets: PodDisruptionBudgets of the cluster.
        namespace: of our operands.
    """
    verdicts = {look.name: judge(look, fleet) for look in looks}
    going = [look for look in looks if verdicts[look.name].action in GOES]
    targets = sorted({look.target for look in going})
    if len(targets) > 1:
        several = f"the hosts of this run ask for {quoted(targets)}"
        one = refusal("layout", several, "one layout", "Name one group after the other with -l.")
        verdicts |= {look.name: refuse(one) for look in going}
        going = []
    too_small = limits(rules.max_unavailable, fleet, [look.wanted.node_name for look in going])
    verdicts |= {
        look.name: refuse(too_small[look.wanted.node_name])
        for look in going
        if look.wanted.node_name in too_small
    }
    rules = replace(rules, target=targets[0] if going else "")
    budgets, rows = list(budgets), []
    for look in looks:
        member, verdict = fleet.members.get(look.wanted.node_name), verdicts[look.name]
        rows.append(
            Row(
                name=look.name,
                node=look.wanted.node_name,
                origin=look.origin,
                target=look.target,
                action=verdict.action,
                reason=verdict.reason,
                model=member.model if member else "",
                gpus=member.gpus if member else 0,
                pods=claimants(look.pods, look.claims, budgets, namespace),
            )
        )
    rows.sort(key=lambda row: (not row.goes, row.action is not Action.RESUME))
    waves, seconds = forecast({row.node: False for row in rows if row.goes}, fleet, rules, now, TIMING)
    placed = [
        replace(row, wave=wave, reason="; ".join(filter(None, (row.reason, why))))
        for row in rows
        for wave, why in [waves.get(row.node, (None, ""))]
    ]
    refused: Mapping[str, Sequence[Refusal]] = {
        name: verdict.refusals for name, verdict in verdicts.items() if verdict.refusals
    }
    return Plan(rules, tuple(placed), fleet, refused, seconds, TIMING)
