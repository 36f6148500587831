"""What changes of nodes have in common: one node's part of a plan, carried out from the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ansible.utils.display import Display
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import leader

from gpusmith.change.budget import Rules
from gpusmith.change.journal import Journal
from gpusmith.change.node_object import NodeObject
from gpusmith.change.outcome import Outcome, Result, Times
from gpusmith.change.protocol import Change, Fenced
from gpusmith.change.steps import NodeChange
from gpusmith.cluster import claims, retries
from gpusmith.cluster.api import Cluster
from gpusmith.errors import GpusmithError
from gpusmith.paths import repo_root
from gpusmith.upgrade.proof import Validation


def result_of(work: Callable[[], Outcome]) -> dict[str, Any]:
    """What becomes of a node as a task's result, which never fails: the report tells it for all nodes."""
    try:
        outcome = work()
    except (GpusmithError, OSError) as error:
        # A controller without room for journals: what was begun is in the node's ledger.
        outcome = Outcome(Result.UNFINISHED, str(error))
    changed = outcome.result not in (Result.UNTOUCHED, Result.RELEASED)
    return {"changed": changed, **asdict(outcome)}


@dataclass(frozen=True)
class Order:
    """One node's part of a plan.

    Attributes:
        given: settings of the plan and of role gpu_upgrade (roles/gpu_upgrade/vars/main.yml).
        stamped: under which name a stamp has the version of what is changed.
        evict: labels of pods that are evicted for it.
    """

    given: Mapping[str, Any]
    stamped: str
    evict: Mapping[str, str]

    @property
    def row(self) -> Mapping[str, Any]:
        """What the plan says of the node."""
        row: Mapping[str, Any] = self.given["row"]
        return row

    @property
    def run(self) -> str:
        """ID of the run."""
        return str(self.given["run"])

    @property
    def name(self) -> str:
        """Of the Node."""
        return str(self.row["node"])

    @property
    def folder(self) -> Path:
        """Of the run."""
        return Path(self.given["folder"])

    @cached_property
    def cluster(self) -> Cluster:
        """The API."""
        return Cluster(self.given["kubeconfig"], retries.AWAY)

    @cached_property
    def journal(self) -> Journal:
        """Of the node."""
        return Journal(self.folder, self.name, Display().display)

    @cached_property
    def node(self) -> NodeObject:
        """The Node object."""
        given = self.given
        rules = Rules(
            self.run,
            self.row["target"],
            given["max_unavailable"],
            int(given["canary"]),
            float(given["soak"]),
            int(given["max_failures"]),
            rollback=bool(self.row.get("rollback")),
        )
        members = {member: int(gpus) for member, gpus in given["members"].items()}
        return NodeObject(
            self.cluster, self.name, rules, given["queue"], members, self.stamped, self.folder, self.evict
        )

    @property
    def validation(self) -> Validation:
        """How the suite is run."""
        suite, given = str(repo_root() / "validation"), self.given
        return Validation(
            suite, given["inventory"], self.folder / self.name, float(given["validation_timeout"])
        )

    def fence(self) -> None:
        """Refuse to go on where another run has taken the node over.

        Raises:
            Fenced: that is so.
        """
        try:
            claims.must_hold(self.cluster, self.name, leader())
        except claims.Lost as error:
            raise Fenced(error.message, error.hint) from error

    def carry_out(self, change: Change, **more: Any) -> Outcome:
        """Change the node.

        Args:
            change: its effects on the machine.
            more: further fields of NodeChange.
        """
        row = self.row
        steps = NodeChange(
            name=self.name,
            run=self.run,
            target=row["target"],
            origin=row["origin"],
            change=change,
            cluster=self.node,
            fence=self.fence,
            say=self.journal.say,
            back=bool(row.get("back")),
            gpus=int(row["gpus"]),
            model=row["model"],
            times=Times(drain_s=float(self.given["drain_timeout"])),
            **more,
        )
        try:
            outcome = steps.carry_out()
        finally:
            self.node.end()
        if outcome.result is Result.UNTOUCHED:
            self.node.leave_out()
        return outcome
