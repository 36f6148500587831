"""How many GPUs of a model may be out at once, and which node may go next.

A run that was killed, a person and the next run see the same: everything is counted from the Node objects.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from gpusmith.change import ledger as ledgers
from gpusmith.change.ledger import FAILED, UNTOUCHED, Ledger, State, Unreadable
from gpusmith.cluster.api import Object
from gpusmith.cluster.holders import quantity
from gpusmith.cluster.stamps import has_taint, proved, read_stamp
from gpusmith.cluster.views import is_cordoned, offered, readiness
from gpusmith.errors import GpusmithError, Refusal
from gpusmith.expect.versions import is_version, upstream
from gpusmith.names import COUNT_LABEL, FIRST_CHANGE, GPU_TYPE_LABEL, PRODUCT_LABEL, SHARED
from gpusmith.wanted import layouts
from gpusmith.wanted.offers import gpus_of

UNKNOWN, UNPROVED = "unknown", "not validated"
MOST_NAMED = 5
VARIABLE = "gpu_upgrade_max_unavailable"


@dataclass(frozen=True)
class Member:
    """A GPU node of the inventory, as the cluster has it.

    Attributes:
        name: of the Node.
        model: of its GPUs; each has a budget of its own.
        gpus: how many it has, 0 if nothing tells.
        out: why they cannot be used now; empty if they can.
        offers: how many of them pods can get all the same.
        ledger: of its change.
        version: of what is changed, that its stamp is for; empty if it has none.
    """

    name: str
    model: str
    gpus: int
    out: str = ""
    ledger: Ledger | None = None
    version: str = ""
    offers: int = 0

    @property
    def begun(self) -> bool:
        """Whether a change of it is unfinished."""
        return self.ledger is not None and not self.ledger.finished

    def validated(self, target: str) -> bool:
        """Whether it was validated with a version."""
        return self.version == target or is_version(self.version, upstream(target))

    def proves(self, target: str) -> bool:
        """Whether a change brought it to a version that serves on it."""
        done = self.ledger is not None and (self.ledger.state, self.ledger.target) == (State.DONE, target)
        return done and not self.out and self.validated(target)


@dataclass(frozen=True)
class Fleet:
    """All GPU nodes of the inventory that the cluster has, whatever `-l` says."""

    members: Mapping[str, Member]

    @classmethod
    def of(cls, nodes: Iterable[Object], names: Mapping[str, int], stamped: str) -> Fleet:
        """From one list of Nodes.

        Args:
            nodes: all of the cluster.
            names: Nodes of the inventory, each with the number of its GPUs; 0 if nothing tells.
            stamped: under which name a stamp has the version of what is changed.
        """
        mine = [row for row in nodes if row["metadata"]["name"] in names]
        kinds = {
            kind: _product(row)
            for row in mine
            # Nodes without a kind are of many models.
            if (kind := _label(row, GPU_TYPE_LABEL)) and _product(row)
        }
        found = [_member(row, names[row["metadata"]["name"]], kinds, stamped) for row in mine]
        return cls({member.name: member for member in found})

    def __getitem__(self, name: str) -> Member:
        if name not in self.members:
            raise GpusmithError(f"The cluster has no node '{name}' any more.", "Look who deleted it.")
        return self.members[name]

    def of_model(self, model: str) -> list[Member]:
        """Nodes with GPUs of one model."""
        return [member for member in self.members.values() if member.model == model]

    def limit(self, text: str, model: str) -> int | Refusal:
        """How many GPUs of a model may be out."""
        sizes = [member.gpus for member in self.of_model(model)]
        return limit(text, sum(sizes), max(sizes, default=0))

    def with_member(self, name: str, ledger: Ledger, out: str, version: str = "") -> Fleet:
        """As it would be if the node changed; for a forecast."""
        changed = replace(self[name], ledger=ledger, out=out, version=version)
        return Fleet({**self.members, name: changed})


def _label(node: Object, key: str) -> str:
    return str((node["metadata"].get("labels") or {}).get(key) or "")


def _member(node: Object, gpus: int, kinds: Mapping[str, str], stamped: str) -> Member:
    offers = layouts.of_node(node).offers(gpus)
    try:
        entry, why = ledgers.read(node), ""
    except Unreadable:
        entry, why = None, ledgers.unfinished(node)
    if entry is not None and not entry.finished:
        why = f"{'upgrade' if entry.change == FIRST_CHANGE else entry.change} '{entry.state}'"
    # A device plugin that left takes the capacity along after some minutes, and feature discovery its labels.
    told = (
        gpus_of(offered(node, "capacity"), offers),
        quantity(_label(node, COUNT_LABEL)),
        entry.gpus if entry else 0,
        gpus,
    )
    size, kind = max(count or 0 for count in told), _label(node, GPU_TYPE_LABEL)
    product = _product(node) or (entry.model if entry else "") or kinds.get(kind, "")
    return Member(
        name=node["metadata"]["name"],
        model=product or kind or UNKNOWN,
        gpus=size,
        out=why or _out(node, size, gpus_of(offered(node), offers)),
        ledger=entry,
        version=proved(read_stamp(node), stamped),
        offers=0 if why or closed(node) else gpus_of(offered(node), offers),
    )


def _product(node: Object) -> str:
    """Of shared GPUs feature discovery says so in the name, unless their resource has a name of its own."""
    return _label(node, PRODUCT_LABEL).removesuffix(SHARED)


def _out(node: Object, size: int, gpus: int) -> str:
    enough = bool(size) and gpus >= size
    return closed(node) or ("" if enough else f"{gpus} of {size or '?'} GPUs offered")


def closed(node: Object) -> str:
    """Why no pod can get any of its GPUs, whatever the node offers."""
    if is_cordoned(node):
        return "cordoned"
    if not readiness(node).ready:
        return "not Ready"
    return UNPROVED if has_taint(node) else ""


# --- the budget ----------------------------------------------------------------------------------------------------


def limit(text: object, total: int, largest: int) -> int | Refusal:
    """How many GPUs of a model may be out.

    Args:
        text: a number, 'N%' of all, rounded down, or nothing for the largest node.
        total: GPUs of the model.
        largest: GPUs of its largest node.
    """
    plain = str(text).strip()
    if not plain:
        return largest
    matched = re.fullmatch(r"(\d{1,6}) ?(%?)", plain)
    number, percent = (int(matched[1]), bool(matched[2])) if matched else (0, False)
    if not number or (percent and number > 100):
        return Refusal(
            f"'{VARIABLE}' is '{text}', which is neither a number of GPUs nor a percentage from 1% to 100%.",
            "Say for example '8' or '25%', or leave it out: then one node of each model is out at a time.",
        )
    return number * total // 100 if percent else number


def limits(text: str, fleet: Fleet, names: Iterable[str]) -> dict[str, Refusal]:
    """Nodes that are to be upgraded and that the budget has no room for, ever. What was begun has its place."""
    found = {}
    for member in map(fleet.__getitem__, names):
        most = fleet.limit(text, member.model)
        if isinstance(most, Refusal):
            found[member.name] = most
        elif most < member.gpus and not member.begun:
            found[member.name] = Refusal(
                f"'{VARIABLE}' is '{text}', that is {most} GPUs of model '{member.model}', and a node with"
                f" {member.gpus} GPUs goes as a whole.",
                f"Allow {member.gpus} or more, or leave such nodes out with -l.",
            )
    return found


def admissible(fleet: Fleet, name: str, most: int, rollback: bool = False) -> str:
    """Why a node may not go out now, in words; empty if the budget has room.

    Args:
        fleet: all nodes as they are now.
        name: of the node. If it is out already, it is counted once.
        most: GPUs of its model that may be out.
        rollback: nodes go back to what worked. One that is out for what it has takes nothing from anybody,
            and the others that are would keep it so.
    """
    mine = fleet[name]
    if mine.begun:
        return ""  # admitted before
    if not mine.gpus:
        return f"nothing tells how many GPUs '{name}' has"
    if rollback and mine.out and not mine.offers:
        return ""
    # One of which nobody knows the model may be of this one.
    rows = fleet.of_model(mine.model) + (fleet.of_model(UNKNOWN) if mine.model != UNKNOWN else [])
    out = [member for member in rows if member.out and member.name != name]
    if rollback and mine.out:
        # What is left of it is taken within the budget, of which nodes that are merely broken use nothing up.
        out = [member for member in out if member.begun]
    taken = sum(member.gpus for member in out)
    if taken + mine.gpus <= most:
        return ""
    named = [f"'{member.name}' ({member.out})" for member in out]
    more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    words = f"{taken} of {most} GPUs of model '{mine.model}' that may be out are"
    words += f": {', '.join(named[:MOST_NAMED])}{more}" if named else ""
    return words if taken >= most else f"{words}; '{name}' has {mine.gpus}"


# --- canaries, and who goes next ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rules:
    """What a run goes by.

    Attributes:
        run: its ID.
        target: version that it installs.
        max_unavailable: see limit().
        canaries: nodes that must have done it before others are begun.
        soak_s: how long the last of them must have served since.
        max_failures: failures of this run, other than a canary's, that halt it.
        rollback: the target is the version from before an earlier upgrade.
    """

    run: str
    target: str
    max_unavailable: str = ""
    canaries: int = 1
    soak_s: float = 300.0
    max_failures: int = 1
    rollback: bool = False


class Answer(StrEnum):
    """Whether a node may be begun."""

    GO = "go"
    WAIT = "wait"
    HALT = "halt"
    """Nothing that has not begun will be, in this run."""


@dataclass(frozen=True)
class Admission:
    """The answer, and why it is no yes."""

    answer: Answer
    why: str = ""


GO = Admission(Answer.GO)


def canary(
    fleet: Fleet, name: str, queue: Sequence[str], rules: Rules, now: dt.datetime, gone: Collection[str] = ()
) -> Admission:
    """Whether canaries and failures let a node begin.

    Args:
        fleet: all nodes as they are now.
        name: of the node.
        queue: nodes of the plan, in its order.
        rules: of the run.
        now: the time.
        gone: nodes that this run has left out before it wrote a ledger; the next ones are canaries instead.
    """
    mine = fleet[name]
    if mine.ledger and mine.begun and mine.ledger.state not in UNTOUCHED:
        return GO  # half done; a halt or a soak would only keep it so
    proved = sorted(
        (member.ledger.since, member.name)
        for member in fleet.members.values()
        if member.ledger and member.proves(rules.target)
    )
    missing = rules.canaries - len(proved)
    watched = ""
    if rules.canaries > 0 and missing <= 0:
        since, last = proved[rules.canaries - 1]
        until = dt.datetime.fromisoformat(since) + dt.timedelta(seconds=rules.soak_s)
        watched = f"canary '{last}' is watched until {until:%Y-%m-%dT%H:%M:%SZ}" if now < until else ""
    halted = _halted(fleet, rules, now, before_canaries=missing > 0, watching=missing > 0 or bool(watched))
    if halted:
        return Admission(Answer.HALT, halted)
    if missing > 0:
        there = [each for each in queue if each in fleet.members and each not in gone]
        candidates = [each for each in there if not _had_its_turn(fleet[each], rules)]
        first = candidates[:missing]
        names = ", ".join(f"'{each}'" for each in first)
        return GO if name in first else Admission(Answer.WAIT, f"canary {names} is first")
    return Admission(Answer.WAIT, watched) if watched else GO


def _halted(fleet: Fleet, rules: Rules, now: dt.datetime, before_canaries: bool, watching: bool) -> str:
    failed = [
        f"'{member.name}' failed ({member.ledger.reason or member.ledger.state})"
        for member in fleet.members.values()
        if member.ledger
        and (member.ledger.run, member.ledger.target) == (rules.run, rules.target)
        and member.ledger.state in FAILED
    ]
    if watching and (fallen := _fallen(fleet, rules, now)):
        return f"canary {', '.join(fallen)}"
    if failed and before_canaries:
        return f"canary {', '.join(failed)}"
    if failed and len(failed) >= rules.max_failures:
        return f"{len(failed)} of {rules.max_failures} failures: {', '.join(failed)}"
    return ""


def _fallen(fleet: Fleet, rules: Rules, now: dt.datetime) -> list[str]:
    """Canaries that served with the target, and do not any more before they were watched long enough."""
    return [
        f"'{member.name}' has failed since it was upgraded ({member.out or 'it is not validated any more'})"
        for member in fleet.members.values()
        if member.ledger
        and not member.proves(rules.target)
        and (member.ledger.state, member.ledger.target) == (State.DONE, rules.target)
        and (
            member.ledger.run == rules.run
            or now < dt.datetime.fromisoformat(member.ledger.since) + dt.timedelta(seconds=rules.soak_s)
        )
    ]


def _had_its_turn(member: Member, rules: Rules) -> bool:
    """Whether it is no canary any more: done, or released in this run because somebody used it."""
    entry = member.ledger
    return entry is not None and (
        (entry.state is State.DONE and entry.target == rules.target)
        or (entry.state is State.RELEASED and entry.run == rules.run)
    )


def admission(
    fleet: Fleet, name: str, queue: Sequence[str], rules: Rules, now: dt.datetime, gone: Collection[str] = ()
) -> Admission:
    """Whether a node may begin now: canaries and failures, then the budget. The arguments are those of canary()."""
    answer = canary(fleet, name, queue, rules, now, gone)
    if answer.answer is not Answer.GO:
        return answer
    most = fleet.limit(rules.max_unavailable, fleet[name].model)
    if isinstance(most, Refusal):
        return Admission(Answer.HALT, str(most))
    why = admissible(fleet, name, most, rules.rollback)
    return Admission(Answer.WAIT, why) if why else GO
