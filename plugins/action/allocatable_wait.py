"""Action plugin: wait until the scheduler may use all GPUs of all nodes."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import ControllerAction
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import Variables, plain

from gpusmith.cluster import allocatable, operands
from gpusmith.cluster.api import Cluster
from gpusmith.expect import gpus
from gpusmith.node.records import load
from gpusmith.probe.pci import Pci


def _spare(variables: Mapping[str, Any]) -> str:
    """What to do about GPUs that the inventory leaves out and operands see, by the last look at the host."""
    record = (variables.get("node_record_now") or {}).get("record") or {}
    return gpus.seen_by_operands(load(Pci, plain(record.get("pci") or {})))


class ActionModule(ControllerAction):
    """Looks, and never fails for a node that is late: the caller names it."""

    def act(self, asked: dict[str, Any], check: bool) -> dict[str, Any]:
        of = Variables(self.variables["hostvars"], self._loader)
        wanted = {host: of.wanted(host) for host in asked["hosts"]}
        cluster = Cluster(asked["kubeconfig"])
        found = allocatable.wait_for(
            cluster,
            {node.node_name: node.gpu_count for node in wanted.values()},
            asked["labels"],
            0.0 if check else asked["timeout"],
            {node.node_name: _spare(of.written(host)) for host, node in wanted.items()},
        )
        late = not check and not all(row.reached for row in found.values())
        return {
            "changed": False,
            "operands": operands.troubles(cluster, asked["namespace"]) if late and asked["namespace"] else [],
            "nodes": {host: asdict(found[node.node_name]) for host, node in wanted.items()},
        }
