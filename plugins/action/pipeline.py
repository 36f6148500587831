"""Action plugin: a step of the example pipeline."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from typing import Any

from ansible.utils.display import Display
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import ControllerAction

from gpusmith.cluster.api import Cluster
from gpusmith.cluster.web import PROMETHEUS, Prometheus, Proxied
from gpusmith.errors import all_of
from gpusmith.pipeline.manifests import PREPROCESS, TRAIN, Pipeline
from gpusmith.pipeline.refusals import refusals
from gpusmith.pipeline.steps import Steps
from gpusmith.verdict.changes import TELLS
from gpusmith.verdict.run import CLUSTER


class ActionModule(ControllerAction):
    """In check mode nothing is made, and nothing is waited for."""

    def act(self, asked: dict[str, Any], check: bool) -> dict[str, Any]:
        cluster, step = Cluster(asked["kubeconfig"]), asked["step"]
        pipeline = Pipeline(
            asked["namespace"],
            asked["image"],
            asked["storage_class"],
            asked["node_port"],
            asked["train_s"],
            asked["simulated"],
            tuple(asked["tolerations"]),
            tuple(asked["pull_secrets"]),
        )
        patience = asked["timeout"] + (asked["train_s"] if step == TRAIN else 0)
        steps = Steps(cluster, pipeline, patience, lambda words: Display().display(f"    {words}"))
        objects: list[str] = []
        notes: list[str] = []
        if step == "refuse":
            if found := refusals(cluster, pipeline):
                raise all_of(found)
        elif step == "remove":
            objects, notes = steps.remove(check)
        elif step == "predict":
            notes = [] if check else self._asked(steps, cluster, asked)
        else:
            objects = steps.clear(check) if step == PREPROCESS else []
            objects += steps.make(step, check)
            notes = [] if check else [steps.wait(step)]
        changes = {"objects": objects} if objects else {}
        return {
            "changed": bool(objects),
            "objects": objects,
            TELLS: {CLUSTER: {"changes": changes, "notes": notes}},
        }

    def _asked(self, steps: Steps, cluster: Cluster, asked: dict[str, Any]) -> list[str]:
        made = steps.result(PREPROCESS)
        said = [steps.predict(made["sample"], made["expected"])]
        if asked["prometheus"]:
            prometheus = Prometheus(Proxied(cluster, asked["prometheus"], PROMETHEUS))
            said.append(steps.watched(prometheus, 3.0 * asked["interval_s"]))
        return said
