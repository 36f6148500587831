"""A run judged again from the evidence that it left (suite/evidence.py): neither inventory nor nodes nor cluster are asked."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from gpusmith.advice import Started
from gpusmith.checks.findings import CannotAsk, Finding, Outcome, Skip
from gpusmith.checks.watched import Answers
from gpusmith.checks.whole_cluster import Removed
from gpusmith.cluster import snapshot
from gpusmith.cluster.api import Cut, Object
from gpusmith.errors import InputError, ToolError
from gpusmith.names import EVIDENCE_SCHEMA
from gpusmith.node.connections import Node, Result, Unreachable
from gpusmith.node.records import load
from gpusmith.suite.evidence import ANSWERS, CLUSTER, FOLDER, NODES, RUN, WORKLOADS, file_of
from gpusmith.suite.maintenance import Maintenance
from gpusmith.suite.sources import ClusterState, Sources
from gpusmith.wanted.inventory import Inventory
from gpusmith.wanted.read import from_plain
from gpusmith.workloads.outcome import NodeOutcome, per_node

OPTION = "--replay"
INSTEAD = "Name the report folder of a run of this release."


@dataclass(frozen=True)
class Recorded:
    """A run that left evidence.

    Attributes:
        folder: of the evidence.
        id: of the run.
        inventory: what was wanted of its nodes.
        tiers: that it ran.
        min_coverage: as it was given.
        maintenance: the upgrade that its nodes were tested for.
        advice: what commands in its findings name.
        checks: ids of all that there were.
    """

    folder: Path
    id: str
    inventory: Inventory
    tiers: tuple[str, ...]
    min_coverage: float | None
    maintenance: Maintenance
    advice: Started
    checks: tuple[str, ...]

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Its nodes, which answer as they did."""
        return {name: _RecordedNode(name, self.id, self.folder / NODES) for name in self.inventory.hosts}

    def rows(self, name: str) -> Iterator[dict[str, Any]]:
        """The rows of one of the packed files.

        Raises:
            CannotAsk: the run left none.
            ToolError: its trouble, or that of the file.
        """
        path = self.folder / name
        if not path.is_file():
            raise CannotAsk(f"Not replayed: run '{self.id}' left no '{name}'.")
        try:
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                for line in lines:
                    row = json.loads(line)
                    if isinstance(row.get("trouble"), list):
                        raise ToolError(*row["trouble"])
                    yield row
        except (OSError, ValueError, EOFError) as error:
            raise ToolError(f"Evidence '{path}' cannot be read: {error}.", INSTEAD) from error


def read(given: str, here: Path) -> Recorded:
    """The run in a folder.

    Args:
        given: the value of the option: a folder of reports, or that of the evidence in it.
        here: where relative paths begin.

    Raises:
        InputError: there is no evidence, or of another schema.
    """
    folder = (here / Path(given).expanduser()).resolve()
    folder = folder / FOLDER if (folder / FOLDER).is_dir() else folder
    path = folder / RUN
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["schema"] != EVIDENCE_SCHEMA:
            raise InputError(f"'{path}' is of schema '{found['schema']}', not '{EVIDENCE_SCHEMA}'.", INSTEAD)
        hosts = {str(row["name"]): from_plain(row) for row in found["wanted"]}
        groups = {group: {"hosts": there} for group, there in found["groups"].items()}
        asked, advice, folders = found["options"], found["advice"], found["own_checks"]
        return Recorded(
            folder,
            str(found["id"]),
            Inventory(asked["inventory"], asked["limit"], hosts, groups, tuple(folders)),
            tuple(asked["tiers"]),
            asked["min_coverage"],
            Maintenance(asked["maintenance_id"], asked["driver_version"], asked.get("gpu_layout", "")),
            Started(
                advice["inventory"],
                advice["kubeconfig"],
                Path(advice["folder"]) if advice["folder"] else None,
            ),
            tuple(found["checks"]),
        )
    except FileNotFoundError as error:
        raise InputError(f"There is no evidence of a run: '{path}' does not exist.", INSTEAD) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"'{path}' is no evidence of a run: {error!r}.", INSTEAD) from error


class Replayed(Sources):
    """What the run was told, from its files. What its workloads found is taken over: nothing is run."""

    def __init__(self, recorded: Recorded, *words: Any) -> None:
        super().__init__(*words)
        self._recorded = recorded

    @cached_property
    def cluster_state(self) -> ClusterState:
        """The lists, judged anew, and what earlier runs had left."""
        found = _RecordedLists(self._recorded.rows(CLUSTER))
        wanted = {
            self.node_name(name): host.operands.namespace for name, host in self.inventory.hosts.items()
        }
        return ClusterState(None, snapshot.take(found, wanted, self.inventory.managed), found.removed)

    @cached_property
    def answers(self) -> Answers:
        """Those of Prometheus and Alertmanager, judged anew."""
        return load(Answers, next(self._recorded.rows(ANSWERS)))

    @cached_property
    def workload_runs(self) -> tuple[dict[str, NodeOutcome], Finding]:
        """What they found."""
        outcomes: dict[str, NodeOutcome] = {}
        for row in self._recorded.rows(WORKLOADS):
            if "cleanup" in row:
                return outcomes, load(Finding, row["cleanup"])
            outcomes[row["node"]] = outcome = load(NodeOutcome, row["outcome"])
            for check in set(per_node()) - set(outcome.findings):
                # Of a later release than the run's.
                cause = f"Not replayed: run '{self._recorded.id}' had no check '{check}'."
                outcome.findings[check] = Finding(
                    check, row["node"], Outcome.SKIPPED, cause, skip=Skip.BLOCKED
                )
        raise CannotAsk(f"Not replayed: run '{self._recorded.id}' did not end its workloads.")


@dataclass(frozen=True)
class _RecordedNode:
    """A node that answers as it did."""

    name: str
    run_id: str
    folder: Path

    def run(self, *_: Any, **__: Any) -> Result:
        """What it answered, whatever it is asked."""
        if not self.folder.is_dir():
            raise CannotAsk(f"Not replayed: run '{self.run_id}' asked no node.")
        path = self.folder / file_of(self.name, ".json")
        try:
            text = path.read_text(encoding="utf-8")
            found = json.loads(text)
            if found["schema"] != EVIDENCE_SCHEMA:
                return Result(0, text, "")
        except (OSError, ValueError, KeyError) as error:
            raise Unreachable(f"Evidence '{path}' cannot be read: {error!r}.", INSTEAD) from error
        if "unreachable" in found:
            raise Unreachable(*found["unreachable"])
        return Result(found["status"], found["stdout"], found["stderr"])


class _RecordedLists:
    """The API, as a snapshot asks it."""

    def __init__(self, rows: Iterator[Mapping[str, Any]]) -> None:
        self.removed: Removed | None = Removed()
        self._lists: dict[str, list[Object]] = {}
        self._serves: dict[str, bool] = {}
        for row in rows:
            if "list" in row:
                self._lists.setdefault(row["list"], []).append(row["item"])
            elif "serves" in row:
                self._serves[row["serves"]] = row["answer"]
            else:
                self.removed = load(Removed, row["removed"]) if row["removed"] else None

    def items(self, path: str, cut: Cut | None = None, /, **_: str) -> list[Object]:
        """As they were, cut once more."""
        rows = self._lists.pop(path, [])
        return [kept for row in rows if (kept := cut(row)) is not None] if cut else rows

    def serves(self, version: str) -> bool:
        """As it was."""
        return self._serves.get(version, False)
