"""Action plugin: one node's layout change, from the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from ansible.utils.display import Display
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import ControllerAction, leader
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import Variables, plain

from gpusmith.change.budget import Rules
from gpusmith.change.journal import Journal
from gpusmith.change.node_object import NodeObject
from gpusmith.change.outcome import Outcome, Result, Times
from gpusmith.change.protocol import Fenced
from gpusmith.change.steps import NodeChange
from gpusmith.cluster import claims, retries
from gpusmith.cluster.api import Cluster
from gpusmith.cluster.stamps import LAYOUT
from gpusmith.data.operands import FEATURE_DISCOVERY
from gpusmith.errors import GpusmithError
from gpusmith.node.records import parse
from gpusmith.paths import repo_root
from gpusmith.probe.stamp import stamp_facts
from gpusmith.relayout.change import LayoutChange
from gpusmith.upgrade.proof import Validation


class ActionModule(ControllerAction):
    """Carries out the plan for one node. Never fails for what becomes of it: the report tells it for all nodes."""

    def act(self, asked: dict[str, Any], check: bool) -> dict[str, Any]:  # noqa: ARG002 - a plan is all of check mode
        try:
            outcome = self._carry_out(asked["order"], asked["record"])
        except GpusmithError as error:
            outcome = Outcome(Result.UNFINISHED, str(error))
        changed = outcome.result not in (Result.UNTOUCHED, Result.RELEASED)
        return {"changed": changed, **asdict(outcome)}

    def _carry_out(self, order: dict[str, Any], record: dict[str, Any]) -> Outcome:
        row, run, name = order["row"], order["run"], order["row"]["node"]
        cluster, folder, mine = Cluster(order["kubeconfig"], retries.AWAY), Path(order["folder"]), leader()
        journal, host = Journal(folder, name, Display().display), str(self.variables["inventory_hostname"])
        wanted = Variables(self.variables["hostvars"], self._loader).wanted(host)

        def fence() -> None:
            try:
                claims.must_hold(cluster, name, mine)
            except claims.Lost as error:
                raise Fenced(error.message, error.hint) from error

        node = NodeObject(
            cluster,
            name,
            Rules(
                run,
                row["target"],
                order["max_unavailable"],
                int(order["canary"]),
                float(order["soak"]),
                int(order["max_failures"]),
            ),
            order["queue"],
            {member: int(gpus) for member, gpus in order["members"].items()},
            LAYOUT,
            folder,
        )
        layout = LayoutChange(
            host,
            node,
            run,
            Validation(
                str(repo_root() / "validation"),
                order["inventory"],
                folder / name,
                float(order["validation_timeout"]),
            ),
            stamp_facts(parse(plain(record))),
            wanted.validation.node_condition,
            FEATURE_DISCOVERY in wanted.operands.ours,
        )
        change = NodeChange(
            name=name,
            run=run,
            target=row["target"],
            origin=row["origin"],
            change=layout,
            cluster=node,
            fence=fence,
            say=journal.say,
            back=bool(row["back"]),
            gpus=int(row["gpus"]),
            model=row["model"],
            times=Times(drain_s=float(order["drain_timeout"])),
        )
        try:
            outcome = change.carry_out()
        finally:
            node.end()
        if outcome.result is Result.UNTOUCHED:
            node.leave_out()
        journal.say(outcome.result, outcome.reason)
        return outcome
