"""Namespaces of other runs of the suite: whose run lives, and which ones a killed run left behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gpusmith.cluster.api import Cluster, Object
from gpusmith.names import ALIVE_ANNOTATION, OWNER_ANNOTATION, PURPOSE, PURPOSE_LABEL
from gpusmith.owner import lives
from gpusmith.wording import quoted

BEAT_S = 5.0
"""How often a run says that it lives."""
LOST_LOOKS = 45
"""After so many looks without a renewal a run is dead."""
LOOK_S = 1.0
SLOW_LOOK_S = 5.0
"""If a list takes so long, the API server did not take renewals either: counting starts again."""
MOST_LOOKS = 300

Say = Callable[[str], None]


@dataclass(frozen=True)
class Leftovers:
    """Namespaces of other runs, or their ConfigMaps in one that stays.

    Attributes:
        dead: to be removed.
        alive: of runs that go on now; theirs is left alone.
        unknown: of runs of other machines, with their last sign of life.
    """

    dead: tuple[str, ...]
    alive: tuple[str, ...]
    unknown: Mapping[str, str] = field(default_factory=dict)


def sort_out(namespaces: Sequence[Object]) -> Leftovers:
    """What is known of runs from here."""
    dead: list[str] = []
    alive: list[str] = []
    unknown: dict[str, str] = {}
    for row in namespaces:
        metadata = row["metadata"]
        name, marks = str(metadata["name"]), metadata.get("annotations") or {}
        on = lives(str(marks.get(OWNER_ANNOTATION, "")))
        # Elsewhere a run that deletes its namespace gives no sign of life any more.
        if on is None and metadata.get("deletionTimestamp"):
            on = False
        if on is None:
            unknown[name] = str(marks.get(ALIVE_ANNOTATION, ""))
        else:
            (alive if on else dead).append(name)
    return Leftovers(tuple(dead), tuple(alive), unknown)


def _list(cluster: Cluster, within: str) -> Leftovers:
    path = f"/api/v1/namespaces/{within}/configmaps" if within else "/api/v1/namespaces"
    return sort_out(cluster.items(path, labelSelector=f"{PURPOSE_LABEL}={PURPOSE}"))


def find(
    cluster: Cluster,
    say: Say = lambda _: None,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
    within: str = "",
) -> Leftovers:
    """One list; more while a run of another machine has not shown whether it lives.

    Clocks of two machines are never compared: a sign of life is that the annotation changes while it is looked at.

    Args:
        cluster: the API.
        say: told about waiting.
        sleep: replaced in tests.
        clock: replaced in tests.
        within: namespace that stays, in which runs are known by their ConfigMaps; empty for runs with one of their own.
    """
    found = _list(cluster, within)
    first, alive, looks = dict(found.unknown), list(found.alive), 0
    dead = dict.fromkeys(found.dead)
    waiting = set(first)
    if waiting:
        say(
            f"waiting {LOST_LOOKS * LOOK_S:.0f} s at most for a sign of life in namespace {quoted(sorted(waiting))}"
            " of another machine's run"
        )
    for _ in range(MOST_LOOKS):
        if not waiting or looks == LOST_LOOKS:
            break
        sleep(LOOK_S)
        begin = clock()
        now = _list(cluster, within)
        looks = looks + 1 if clock() - begin < SLOW_LOOK_S else 0
        for name in sorted(waiting):
            if now.unknown.get(name) == first[name]:
                continue
            waiting.discard(name)
            if name in now.unknown:
                alive.append(name)
            elif name in now.dead:
                dead[name] = None
    # Runs that could not be watched for long enough are left alone.
    (dead.update(dict.fromkeys(sorted(waiting))) if looks == LOST_LOOKS else alive.extend(sorted(waiting)))
    return Leftovers(tuple(dead), tuple(alive))
