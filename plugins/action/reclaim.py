"""Action plugin: warn owners of pods that do not use their GPUs, and stop those that were warned."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import ControllerAction, write

from gpusmith.cluster.api import Cluster
from gpusmith.cluster.monitoring import prometheus_of, silence
from gpusmith.cluster.web import Silent
from gpusmith.errors import GpusmithError, ToolError
from gpusmith.names import RECLAIM_ALLOWED, RECLAIM_LABEL
from gpusmith.reclaim import act, owners, plan
from gpusmith.reclaim.evidence import Witness
from gpusmith.verdict.changes import TELLS
from gpusmith.verdict.run import CLUSTER

NOBODY = f"No namespace allows it. Its owner does by: kubectl label namespace NAME {RECLAIM_LABEL}={RECLAIM_ALLOWED}"


class ActionModule(ControllerAction):
    """Decides for all owners first; in check mode that is all."""

    def act(self, asked: dict[str, Any], check: bool) -> dict[str, Any]:
        cluster = Cluster(asked["kubeconfig"])
        prometheus = prometheus_of(lambda: cluster, asked, "idle GPUs")
        wanted = plan.Asked(60 * asked["idle_min"], 60 * asked["grace_min"], asked["max_pods"])
        namespaces = owners.allowed(cluster)
        if not namespaces:
            return {"changed": False, "decisions": [], TELLS: {CLUSTER: {"notes": [NOBODY]}}}
        facts = owners.read(cluster, namespaces)
        try:
            witness = Witness(prometheus.query, namespaces)
            found = owners.owners(facts, witness.now, asked["jobs"])
            decided = plan.decide(found, witness.window, wanted, witness.now)
        except Silent as error:
            raise silence(error, asked["namespace"]) from error
        wrong: list[str] = []
        done = decided
        if not check:
            done = [self._do(cluster, row, wanted, witness.now, wrong) for row in decided]
            try:
                write(Path(asked["dest"]), json.dumps(plan.report(done, witness.now), indent=2) + "\n")
            except ToolError as error:
                # What was done is told all the same, with the way back.
                wrong.append(str(error))
        changes = [row.words for row in done if row.does is not plan.Does.NOTHING]
        notes = [row.line for row in done] or [f"No pod holds a GPU in {', '.join(namespaces)}."]
        notes += [
            f"{row.words}. To bring it back: {act.bring_back(row.owner)}"
            for row in done
            if row.does is plan.Does.ACT
        ]
        return {
            "changed": bool(changes),
            "decisions": plan.report(done, witness.now)["owners"],
            TELLS: {CLUSTER: {**({"changes": {"objects": changes}} if changes else {}), "notes": notes}},
            **({"failed": True, "msg": "\n".join(wrong)} if wrong else {}),
        }

    @staticmethod
    def _do(
        cluster: Cluster, row: plan.Decision, asked: plan.Asked, now: float, wrong: list[str]
    ) -> plan.Decision:
        """What became of a decision; one that cannot be carried out holds up no other."""
        if row.does is plan.Does.NOTHING:
            return row
        try:
            why = act.do(cluster, row, asked, now)
        except GpusmithError as error:
            wrong.append(str(error))
            why = error.message
        return row.instead(why) if why else row
