"""What an earlier run left behind because it was killed."""

from __future__ import annotations

import datetime as dt
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from gpusmith.kube import Cluster, Object
from gpusmith.workloads.jobs import OWNER_ANNOTATION, PURPOSE, PURPOSE_LABEL

FOREIGN_AGE_S = 2 * 3600
"""A run of another machine cannot be asked whether it lives; after this time it does not."""


def own_owner() -> str:
    """Host, process id and its start, which together are unique."""
    return f"{socket.gethostname()}/{os.getpid()}/{_start_of(os.getpid())}"


def _start_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:  # noqa: PTH123
            # The program's name may contain blanks and brackets; what follows its last bracket does not.
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return "gone"


def is_alive(owner: str, age_s: float) -> bool:
    """Whether the run of that owner still goes on."""
    host, _, rest = owner.partition("/")
    pid, _, start = rest.partition("/")
    if host != socket.gethostname() or not pid.isdigit():
        return age_s < FOREIGN_AGE_S
    return _start_of(int(pid)) == start


@dataclass(frozen=True)
class Leftovers:
    """Namespaces of other runs.

    Attributes:
        dead: to be removed.
        alive: other runs that go on now; theirs is left alone.
    """

    dead: tuple[str, ...]
    alive: tuple[str, ...]


def sort_out(namespaces: Sequence[Object], now: dt.datetime) -> Leftovers:
    """Which namespaces of validation runs are dead."""
    dead: list[str] = []
    alive: list[str] = []
    for row in namespaces:
        metadata = row["metadata"]
        made = dt.datetime.fromisoformat(str(metadata["creationTimestamp"]))
        owner = str((metadata.get("annotations") or {}).get(OWNER_ANNOTATION, ""))
        lives = is_alive(owner, (now - made).total_seconds()) and not metadata.get("deletionTimestamp")
        (alive if lives else dead).append(str(metadata["name"]))
    return Leftovers(tuple(dead), tuple(alive))


def find(cluster: Cluster) -> Leftovers:
    """One list."""
    rows = list(cluster.items("/api/v1/namespaces", labelSelector=f"{PURPOSE_LABEL}={PURPOSE}"))
    return sort_out(rows, dt.datetime.now(dt.UTC))
