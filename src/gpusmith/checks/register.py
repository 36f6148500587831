"""The register of checks: each registers itself with what it proves, what makes it fail and what a person does then."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from typing import Any, TypeVar

from gpusmith.checks.findings import Finding
from gpusmith.errors import InputError
from gpusmith.names import MONITORING
from gpusmith.problems import Problem

PACKAGES = ("gpusmith.checks", "gpusmith.workloads")
TIERS = ("nodes", "cluster", MONITORING, "workloads")
CLUSTER = "cluster"
"""Target of checks that concern no single node."""

Judge = Callable[[Any], Sequence[Problem] | Finding]
Evidence = Callable[[Any], Mapping[str, Any]]
F = TypeVar("F", bound=Judge)


class Reads(Enum):
    """What a check is given; gpusmith.suite.evaluation gets it."""

    ANSWER = auto()
    """Whether a node or the cluster answers at all: Probed, ClusterAnswer."""
    RECORD = auto()
    """A node's record: NodeFacts."""
    NODE = auto()
    """A node as the cluster has it: ClusterFacts."""
    LISTS = auto()
    """The lists of the whole cluster: WholeCluster."""
    WATCHED = auto()
    """What watches nodes, and what that knows of one: Watched, WatchedNode."""
    RUN = auto()
    """What the run of the workloads found: NodeOutcome of a node, the finding about what is left of the cluster."""
    FLEET = auto()
    """The same of a node, with the rates of all: OfRun."""


def _no_evidence(_: object) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True)
class Check:
    """A registered check.

    Attributes:
        id: tier, dot, name.
        place: among the checks of its tier; what explains other failures comes first.
        proves: one line.
        fails_when: one line.
        do: what a person does when it fails, one line.
        judge: its function, from facts to problems; no problem is a pass.
        per_node: its targets are nodes; else it runs once, with the cluster as target.
        critical: a node that fails it is not expected to run workloads.
        reads: what its function is given.
        evidence: what it saw, from the same facts, so that a pass can be read again later.
        explained_by: ids of checks whose failure lets this one fail on the same node; reports then show it under that one.
        managed_only: it judges what gpusmith sets up and nothing else, so that it does not apply to what others did.
    """

    id: str
    place: int
    proves: str
    fails_when: str
    do: str
    judge: Judge
    per_node: bool
    critical: bool
    reads: Reads
    evidence: Evidence = _no_evidence
    explained_by: tuple[str, ...] = ()
    managed_only: bool = False

    @property
    def tier(self) -> str:
        """The part of the id before the dot."""
        return self.id.partition(".")[0]


_CHECKS: dict[str, Check] = {}


def check(
    name: str,
    /,
    *,
    place: int,
    proves: str,
    fails_when: str,
    do: str,
    per_node: bool = True,
    critical: bool = False,
    reads: Reads | None = None,
    evidence: Evidence = _no_evidence,
    explained_by: tuple[str, ...] = (),
    managed_only: bool = False,
) -> Callable[[F], F]:
    """Register the decorated function as a check.

    Args:
        name: id of the check: tier, dot, name.
        place: as of Check, by tens, so that another one fits between two.
        proves: as of Check.
        fails_when: as of Check.
        do: as of Check.
        per_node: as of Check.
        critical: as of Check.
        reads: as of Check; by default what the checks of the tier read.
        evidence: as of Check.
        explained_by: as of Check.
        managed_only: as of Check.

    Raises:
        InputError: the name has no tier, or is taken.
    """

    def register(judge: F) -> F:
        tier = name.partition(".")[0]
        if tier not in TIERS:
            raise InputError(
                f"Check '{name}' is of no tier.", f"Let its name begin with one of: {', '.join(TIERS)}."
            )
        if name in _CHECKS:
            raise InputError(f"Check '{name}' is registered twice.", "Give one of them another name.")
        of_tier = {
            "nodes": Reads.RECORD,
            "cluster": Reads.NODE if per_node else Reads.LISTS,
            MONITORING: Reads.WATCHED,
            "workloads": Reads.RUN,
        }
        _CHECKS[name] = Check(
            name,
            place,
            proves,
            fails_when,
            do,
            judge,
            per_node,
            critical,
            reads or of_tier[tier],
            evidence,
            explained_by,
            managed_only,
        )
        _in_order.cache_clear()
        return judge

    return register


@cache
def _read() -> None:
    """Import every module that registers checks of gpusmith."""
    for name in PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.iter_modules(package.__path__, f"{name}."):
            importlib.import_module(module.name)


@cache
def _in_order() -> Mapping[str, Check]:
    rows = sorted(_CHECKS.values(), key=lambda row: (TIERS.index(row.tier), row.place, row.id))
    return {row.id: row for row in rows}


def catalog() -> Mapping[str, Check]:
    """All checks that are registered so far by id, in the order of tiers and places; plugins of pytest add more."""
    _read()
    return _in_order()


def explanations(name: str, ran: bool = False) -> tuple[str, ...]:
    """Checks that explain a failure of this one on the same node, by id; for workloads these are the critical ones, too.

    Args:
        name: of the check.
        ran: it is a workload that had GPUs, so that what others say of the Node does not explain what it found.
    """
    row = catalog().get(name)
    if row is None:
        return ()
    critical = (other.id for other in catalog().values() if other.critical)
    if row.tier != "workloads":
        return row.explained_by
    return (*critical, *(() if ran else row.explained_by))


def of_tier(tier: str) -> tuple[Check, ...]:
    """The checks of one tier, in their order."""
    return tuple(row for row in catalog().values() if row.tier == tier)
