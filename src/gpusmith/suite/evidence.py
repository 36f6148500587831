"""What a run was told, word for word: files beside its results, of which it can be judged again (suite/replay.py).

Everything is written as it comes, so that a run of thousands of nodes keeps nothing in memory for it.
"""

from __future__ import annotations

import gzip
import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gpusmith.checks.findings import Finding
from gpusmith.checks.watched import Answers
from gpusmith.cluster.api import Cut, Object
from gpusmith.cluster.lists import Lists
from gpusmith.errors import GpusmithError, ToolError
from gpusmith.names import EVIDENCE_SCHEMA
from gpusmith.node.connections import Node, Result, Unreachable
from gpusmith.wanted.node import NodeWanted
from gpusmith.wanted.read import to_plain
from gpusmith.workloads.outcome import NodeOutcome

FOLDER = "evidence"
RUN, NODES, PODS = "run.json", "nodes", "pods"
CLUSTER, ANSWERS, WORKLOADS = "cluster.json.gz", "monitoring.json.gz", "workloads.json.gz"
SECRETIVE = ("repository", "proxy")
"""Options of roles whose addresses may have a password; no check reads them."""
MOST_SAID = 4000
"""Characters of what a node said instead of a record."""


def clear(folder: Path) -> None:
    """Remove the evidence of an earlier run from the folder of the reports; what else lies there stays.

    Raises:
        ToolError: it cannot be removed.
    """
    there = folder / FOLDER
    if not (there / RUN).is_file():
        return
    parts = [there / NODES, there / PODS]
    try:
        for path in (
            *parts[0].glob("*.json"),
            *parts[1].glob("*.log"),
            there / CLUSTER,
            there / ANSWERS,
            there / WORKLOADS,
            there / RUN,
        ):
            path.unlink(missing_ok=True)
    except OSError as error:
        raise ToolError(
            f"Evidence '{there}' of an earlier run cannot be removed: {error.strerror}.",
            "Give --report-dir a folder that you can write to.",
        ) from error
    for path in (*parts, there):
        with suppress(OSError):
            path.rmdir()


def file_of(name: str, suffix: str) -> str:
    """The file of a host or pod, whatever its name."""
    return f"{quote(name, safe='@+ ')}{suffix}"


def plain(host: NodeWanted) -> dict[str, Any]:
    """What the inventory wants of a host, without what may be secret and without the way to it."""
    found = to_plain(host)
    found["connection"] = {"ansible_host": host.address}
    if host.monitoring.prometheus_url:
        # It may have a password, too; only whether there is one matters to a replay.
        found["monitoring"]["prometheus_url"] = "not kept"
    return {
        name: {key: row for key, row in value.items() if key not in SECRETIVE}
        if isinstance(value, dict)
        else value
        for name, value in found.items()
    }


class Evidence:
    """The folder; without one, nothing is kept.

    Args:
        folder: of the evidence, in that of the reports.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self.trouble = ""
        """Why it is not whole; empty if it is."""

    def begin(self, about: Mapping[str, Any], hosts: Iterable[NodeWanted]) -> None:
        """What the run was started with.

        Args:
            about: the run and its options, as plain JSON data.
            hosts: as they were wanted.
        """
        if self._folder is None:
            return
        versions = {"release": about["version"], "python": platform.python_version()}
        document = {"schema": EVIDENCE_SCHEMA, **about, "versions": versions, "wanted": [*map(plain, hosts)]}
        self._keep(RUN, json.dumps(document, indent=1))

    def nodes(self, nodes: Mapping[str, Node]) -> Mapping[str, Node]:
        """The nodes, whose answers are kept."""
        return {name: _KeptNode(node, self) for name, node in nodes.items()} if self._folder else nodes

    def node(self, name: str, answer: str) -> None:
        """What a node answered: its record, or JSON that says what came instead."""
        self._keep(f"{NODES}/{file_of(name, '.json')}", answer + "\n")

    def pod(self, name: str, log: str) -> None:
        """What a workload's pod printed; the last answer is the whole."""
        self._keep(f"{PODS}/{file_of(name, '.log')}", log)

    def lists(self, cluster: Lists) -> Lists:
        """The API, whose answers are kept."""
        return _KeptLists(cluster, self) if self._folder else cluster

    def cluster(self, rows: Iterable[Mapping[str, Any]], again: bool = False) -> None:
        """Rows about the cluster; those that are there go first if it is asked again."""
        self._add(CLUSTER, rows, again)

    def workloads(self, nodes: Mapping[str, NodeOutcome], cleanup: Finding) -> None:
        """What came of the workloads."""
        if self._folder is None:
            return
        rows = ({"node": name, "outcome": _slim(outcome)} for name, outcome in nodes.items())
        self._add(WORKLOADS, rows, again=True)
        self._add(WORKLOADS, [{"cleanup": asdict(cleanup)}])

    def answers(self, answers: Answers) -> None:
        """What Prometheus and Alertmanager answered."""
        if self._folder is not None:
            self._add(ANSWERS, [asdict(answers)], again=True)

    def could_not(self, what: str, why: GpusmithError) -> None:
        """Neither lists nor answers nor workloads, but the reason."""
        self._add(what, [{"trouble": [why.message, why.hint]}], again=True)

    def _keep(self, name: str, text: str) -> None:
        self._write(name, "wb", [text.encode()])

    def _add(self, name: str, rows: Iterable[Mapping[str, Any]], again: bool = False) -> None:
        """A member of its own of the gzip file: what was written before is whole, however the run ends."""
        lines = (json.dumps(row, default=str).encode() + b"\n" for row in rows)
        self._write(name, "wb" if again else "ab", lines)

    def _write(self, name: str, mode: str, parts: Iterable[bytes]) -> None:
        if self._folder is None or self.trouble:
            return
        path = self._folder / name
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(path, mode, opener=_for_its_owner) as file:
                if not name.endswith(".gz"):
                    file.writelines(parts)
                    return
                with gzip.open(file, "wb", compresslevel=6) as packed:
                    packed.writelines(parts)
        except OSError as error:
            self.trouble = f"Evidence '{path}' cannot be written: {error.strerror}. Is the disk full?"


def _for_its_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _slim(outcome: NodeOutcome) -> dict[str, Any]:
    """Of the Node object, only who held its GPUs."""
    view = replace(outcome.view, tenants=(), system_pods=()) if outcome.view else None
    return asdict(replace(outcome, view=view))


@dataclass(frozen=True)
class _KeptNode:
    """A node whose answers are kept."""

    node: Node
    evidence: Evidence

    @property
    def name(self) -> str:
        """Its inventory name."""
        return self.node.name

    def run(self, argv: Sequence[str], stdin: bytes = b"", timeout_s: float = 60.0) -> Result:
        """As the node does."""
        try:
            done = self.node.run(argv, stdin, timeout_s)
        except Unreachable as error:
            self._instead(unreachable=[error.message, error.hint])
            raise
        records = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if records and done.status != 124:
            self.evidence.node(self.name, records[0])
        else:
            self._instead(
                status=done.status, stdout=done.stdout[-MOST_SAID:], stderr=done.stderr[-MOST_SAID:]
            )
        return done

    def _instead(self, **what: Any) -> None:
        self.evidence.node(self.name, json.dumps({"schema": EVIDENCE_SCHEMA, **what}))


class _KeptLists:
    """The API as a snapshot asks it. A list that is asked for once more begins a new snapshot."""

    def __init__(self, cluster: Lists, evidence: Evidence) -> None:
        self._cluster, self._evidence = cluster, evidence
        self._asked: set[str] = set()

    def items(self, path: str, cut: Cut | None = None, /, **query: str) -> list[Object]:
        """As the API answers it, cut."""
        found = self._cluster.items(path, cut, **query)
        again = path in self._asked
        self._asked = {path} if again else {*self._asked, path}
        first = again or len(self._asked) == 1
        self._evidence.cluster(({"list": path, "item": row} for row in found), first)
        return found

    def serves(self, version: str) -> bool:
        """As the API answers it."""
        found = self._cluster.serves(version)
        self._evidence.cluster([{"serves": version, "answer": found}])
        return found
