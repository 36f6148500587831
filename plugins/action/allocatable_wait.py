"""Action plugin: wait until the scheduler may use all GPUs of all nodes."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import ControllerAction
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import Variables

from gpusmith.cluster import allocatable, operands
from gpusmith.cluster.api import Cluster


class ActionModule(ControllerAction):
    """Looks, and never fails for a node that is late: the caller names it."""

    def act(self, asked: dict[str, Any], check: bool) -> dict[str, Any]:
        of = Variables(self.variables["hostvars"], self._loader)
        wanted = {host: of.wanted(host) for host in asked["hosts"]}
        cluster = Cluster(asked["kubeconfig"])
        found = allocatable.wait_for(
            cluster,
            {node.node_name: node.offers for node in wanted.values()},
            asked["labels"],
            0.0 if check else asked["timeout"],
        )
        late = not check and not all(row.reached for row in found.values())
        return {
            "changed": False,
            "operands": operands.troubles(cluster, asked["namespace"]) if late and asked["namespace"] else [],
            "nodes": {host: asdict(found[node.node_name]) for host, node in wanted.items()},
        }
