"""Action plugin: empty a node, delete its Node object, or take our marks off it."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import ControllerAction, leader

from gpusmith.cluster import claims, maintenance, node_metadata
from gpusmith.cluster.api import Cluster
from gpusmith.verdict.changes import TELLS


class ActionModule(ControllerAction):
    """Refuses while pods hold GPUs, before anything is changed."""

    def act(self, asked: dict[str, Any], check: bool) -> dict[str, Any]:
        cluster = Cluster(asked["kubeconfig"])
        if asked["state"] == "removable":
            return {"changed": False, "present": maintenance.must_be_free(cluster, asked["name"])}
        if asked["state"] == "released":
            taken = node_metadata.release(cluster, asked["name"], check)
            return {
                "changed": bool(taken),
                TELLS: {str(self.variables["inventory_hostname"]): {"changes": taken}},
            }
        if asked["state"] == "absent":
            return {"changed": maintenance.remove(cluster, asked["name"], asked["timeout"], check)}
        if not check:
            claims.must_hold(cluster, asked["name"].lower(), leader())
        done = maintenance.empty(cluster, asked["name"], asked["timeout"], check)
        return {"changed": bool(done.cordoned or done.evicted), **asdict(done)}
