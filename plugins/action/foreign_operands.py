"""Action plugin: refuse a cluster whose GPU operands belong to somebody else."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from typing import Any, ClassVar

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import ControllerAction

from gpusmith.cluster import operands
from gpusmith.cluster.api import Cluster


class ActionModule(ControllerAction):
    """Lists workloads once and refuses a second owner."""

    SPEC: ClassVar[dict[str, dict[str, Any]]] = {
        "kubeconfig": {"type": "path", "required": True},
        "namespace": {"type": "str", "required": True},
        "components": {"type": "list", "elements": "dict", "required": True},
    }

    def act(self, asked: dict[str, Any], check: bool) -> dict[str, Any]:  # noqa: ARG002 - changes nothing
        cluster = Cluster(asked["kubeconfig"])
        lists = (cluster.items(f"/apis/apps/v1/{kind}") for kind in ("daemonsets", "deployments"))
        workloads = [row for rows in lists for row in rows]
        found = operands.second_owners(workloads, asked["namespace"], asked["components"])
        there = cluster.get(f"/api/v1/namespaces/{asked['namespace']}") is not None
        result = {"changed": False, "foreign": found, "namespace_exists": there}
        if found:
            result.update(
                failed=True, msg=f"Two owners of one operand would fight over the GPUs: {' '.join(found)}"
            )
        return result
