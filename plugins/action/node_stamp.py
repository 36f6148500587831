"""Action plugin: put the outcome of a validation on a Node object."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import ControllerAction

from gpusmith.cluster import stamps
from gpusmith.cluster.api import Cluster
from gpusmith.expect.versions import is_open
from gpusmith.probe.stamp import missing_facts
from gpusmith.verdict.changes import TELLS


class ActionModule(ControllerAction):
    """Stamps a node that is proved, and takes an older stamp off any other one."""

    def act(self, asked: dict[str, Any], check: bool) -> dict[str, Any]:
        name, facts = asked["node"], asked["facts"]
        unknown = missing_facts(facts)
        if unknown:
            return {
                "failed": True,
                "msg": f"Node '{name}' cannot be stamped: its {' and '.join(unknown)} could not be read. Look at the node, then run"
                " this again.",
            }
        results = stamps.read_results(Path(asked["results"]), asked["not_before"])
        proof = stamps.judge(results, asked["host"])
        asked_for = stamps.driver_asked(results, asked["host"])
        facts = {**facts, "asked": asked_for} if is_open(asked_for) else facts
        done = stamps.put_outcome(Cluster(asked["kubeconfig"]), name, proof, facts, check, asked["condition"])
        notes = stamps.unwatched(results, asked["host"])
        report = Path(asked["results"]).with_name("report.html")
        return {
            "changed": done.changed,
            "stamp": done.stamp,
            "untainted": done.untainted,
            **({"msg": f"{done.message} See '{report}'."} if done.message else {}),
            **({TELLS: {asked["host"]: {"notes": notes}}} if notes else {}),
            **({} if done.proved else {"failed": True}),
        }
