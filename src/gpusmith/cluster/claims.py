"""Which run of a playbook works on which nodes, so that two never change the same one.

All runs stand in one object of the cluster, one entry each, which is changed only as it was read: whoever comes second sees the
first. It also holds for machines that have not joined, and for runs from several machines.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from gpusmith.cluster.api import CONFLICT, MISSING, ApiRefused, Cluster, Object
from gpusmith.errors import GpusmithError
from gpusmith.names import MANAGED_BY, MANAGER, RUNS, RUNS_NAMESPACE
from gpusmith.owner import Process
from gpusmith.wait import Deadline, Done, NotYet, WaitTimeout, wait_until
from gpusmith.wording import shorten

FOLDER = f"/api/v1/namespaces/{RUNS_NAMESPACE}/configmaps"
PATH = f"{FOLDER}/{RUNS}"
TRIES = 20
BEAT_S = 10.0
SILENT_S = 45.0
"""A run on another machine whose entry does not change for so long is dead."""
ORPHANS_S = 120.0
"""How long to wait for the tasks of a killed run, which end by themselves."""
TICK_S = 1.0
AGAIN = "Run this again."

Say = Callable[[str], None]


class Taken(GpusmithError):  # noqa: N818
    """Another run works on one of the nodes."""


class Lost(GpusmithError):  # noqa: N818
    """The run no longer has its claim."""


@dataclass(frozen=True)
class Claim:
    """One run.

    Attributes:
        run: its name.
        what: the playbook.
        who: user and machine.
        since: when it began.
        leader: process of ansible-playbook.
        keeper: process that gives signs of life, until the leader and its tasks have ended.
        nodes: machine IDs by name of the Node; empty where a machine's is not known.
        beat: sign of life, another one every time.
    """

    run: str
    what: str
    who: str
    since: str
    leader: Process
    keeper: Process
    nodes: Mapping[str, str] = field(default_factory=dict)
    beat: int = 0

    @property
    def title(self) -> str:
        """For a person."""
        return f"'{self.what}' of {self.who} (process {self.leader.pid}), since {self.since}"

    def shares(self, other: Claim) -> list[str]:
        """Names of its nodes that are also the other's, by name or by machine."""
        machines = {machine for machine in other.nodes.values() if machine}
        return sorted(
            name for name, machine in self.nodes.items() if name in other.nodes or machine in machines
        )

    @property
    def lives(self) -> bool | None:
        """Whether one of its processes runs; None if they are not visible from this machine."""
        seen = (self.leader.lives, self.keeper.lives)
        return None if None in seen else any(seen)


def read(text: str) -> Claim | None:
    """Parse an entry; None if it is malformed."""
    try:
        raw: dict[str, Any] = json.loads(text)
        raw.update({name: Process(**_known(Process, raw[name])) for name in ("leader", "keeper")})
        return Claim(**_known(Claim, raw))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _known(shape: type[Any], raw: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that this release knows; entries of later releases may have more."""
    return {each.name: raw[each.name] for each in fields(shape) if each.name in raw}


def written(claim: Claim) -> str:
    """The entry."""
    return json.dumps(asdict(claim), sort_keys=True)


def book(cluster: Cluster) -> tuple[Object | None, dict[str, Claim]]:
    """The object, and the runs in it that can be read."""
    there = cluster.get(PATH)
    rows = {name: read(text) for name, text in ((there or {}).get("data") or {}).items()}
    return there, {name: row for name, row in rows.items() if row is not None}


# --- the beginning of a run ----------------------------------------------------------------------------------------


def claim(
    cluster: Cluster,
    mine: Claim,
    say: Say,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Enter a run, unless another one works on a node of it; entries of dead runs go.

    Args:
        cluster: the API.
        mine: the run.
        say: told about waiting.
        sleep: replaced in tests.
        clock: replaced in tests.

    Raises:
        Taken: by whom, and since when.
        ToolError: the cluster does not answer or refuses.
    """
    dead: set[str] = set()
    for left in reversed(range(TRIES)):
        there, runs = book(cluster)
        rivals = [
            row
            for name, row in runs.items()
            # Not its own entry, if the answer to a patch was lost, and not that of an earlier playbook of the same run.
            if name not in dead and name != mine.run and row.leader != mine.leader and mine.shares(row)
        ]
        if rivals:
            dead.add(_outlive(cluster, mine, rivals[0], say, sleep, clock))
            continue
        gone = {name: None for name in runs if name in dead}
        try:
            _enter(cluster, there, {mine.run: written(mine), **gone})
        except ApiRefused as error:
            if error.status != CONFLICT or not left:
                raise
            continue
        return
    raise Taken(f"Other runs kept coming and going on node '{next(iter(mine.nodes))}'.", "Run this again.")


def _enter(cluster: Cluster, there: Object | None, data: Mapping[str, str | None]) -> None:
    if there is None:
        metadata = {"name": RUNS, "namespace": RUNS_NAMESPACE, "labels": {MANAGED_BY: MANAGER}}
        rows = {name: text for name, text in data.items() if text is not None}
        cluster.create(FOLDER, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": rows})
        return
    version = {"resourceVersion": there["metadata"]["resourceVersion"]}
    cluster.patch(PATH, {"metadata": version, "data": dict(data)}, MANAGER)


def _outlive(
    cluster: Cluster,
    mine: Claim,
    rival: Claim,
    say: Say,
    sleep: Callable[[float], None],
    clock: Callable[[], float],
) -> str:
    """The name of a rival that is dead.

    Raises:
        Taken: it lives.
    """
    alive = rival.lives
    if alive is False:
        return rival.run
    if alive and rival.leader.lives:
        raise _taken(mine, rival)
    what, seconds = ("ends", ORPHANS_S) if alive else ("gives a sign of life", SILENT_S)
    say(
        f"Node '{mine.shares(rival)[0]}' was claimed by {rival.title}: waiting at most {seconds:.0f} s whether it {what}."
    )

    def look() -> Done[None] | NotYet:
        now = book(cluster)[1].get(rival.run)
        if now is None or now.lives is False:
            return Done(None)
        if now.beat != rival.beat and not alive:
            raise _taken(mine, rival)
        return NotYet("it has not ended")

    try:
        wait_until("the other run to end", look, Deadline(seconds, clock), TICK_S, sleep)
    except WaitTimeout:
        if alive:
            raise _taken(
                mine,
                rival,
                f" It was killed, and its tasks go on: process {rival.keeper.pid} watches them; if they hang, end that process.",
            ) from None
    return rival.run


def _taken(mine: Claim, rival: Claim, more: str = "") -> Taken:
    nodes = mine.shares(rival)
    named = _named(nodes)
    return Taken(
        f"{named[0].upper()}{named[1:]} {'is' if len(nodes) == 1 else 'are'} worked on by another run: {rival.title}.{more}",
        "Nothing was changed. Wait until it ends, then run this again.",
    )


def _named(nodes: Sequence[str]) -> str:
    return f"node{'' if len(nodes) == 1 else 's'} {shorten(nodes)}"


# --- while it goes on, and its end ---------------------------------------------------------------------------------


def beat(cluster: Cluster, mine: Claim) -> Claim | None:
    """Renew the entry; None if it is gone: another run took the nodes after SILENT_S without a renewal."""
    for left in reversed(range(TRIES)):
        there, runs = book(cluster)
        if there is None or mine.run not in runs:
            return None
        now = replace(mine, beat=mine.beat + 1)
        try:
            _enter(cluster, there, {mine.run: written(now)})
            return now
        except ApiRefused as error:
            if error.status != CONFLICT or not left:
                raise
    return None


def must_hold(cluster: Cluster, node: str, leader: Process) -> None:
    """Refuse to go on unless the run still has its claim on a node. Call it before a change, and in each turn of a long wait.

    The keeper ends a run that has lost its claim, but only when it gives the next sign of life; and workers of ansible-playbook
    outlive an ansible-playbook that was killed.

    Args:
        cluster: the API.
        node: name of the Node.
        leader: process of ansible-playbook.

    Raises:
        Lost: ansible-playbook has ended, or no claim of it has the node.
        ToolError: the cluster does not answer.
    """
    if leader.lives is False:
        raise Lost(f"The run that was to change node '{node}' has ended.", AGAIN)
    if not any(row.leader == leader and node in row.nodes for row in book(cluster)[1].values()):
        raise Lost(lost(node), AGAIN)


def lost(*nodes: str) -> str:
    """The message for a run without its claim."""
    return (
        f"This run has no claim on {_named(nodes)} any more: its entry is gone from ConfigMap '{RUNS_NAMESPACE}/{RUNS}'. "
        f"Another run that saw no sign of life for {SILENT_S:.0f} s may work there now."
    )


def release(cluster: Cluster, run: str) -> None:
    """Remove an entry, if it is there."""
    try:
        cluster.patch(PATH, {"data": {run: None}}, MANAGER)
    except ApiRefused as error:
        if error.status != MISSING:
            raise
