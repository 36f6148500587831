"""Action plugin: refuse a cluster whose GPU operands would fail: somebody else's, without credentials, or wrong for the runtime."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import ControllerAction

from gpusmith.cluster import dra, operands, plugin_strategy, pull_secrets
from gpusmith.cluster.api import MISSING, ApiRefused, Cluster, Object
from gpusmith.data.operands import DRA_DRIVER

NO_API = (
    f"'gpusmith_gpu_sharing: dra' hands GPUs out by '{dra.VERSION}', which this cluster does not serve: Kubernetes has it from 1.34"
    " on. Take it out of the inventory, or upgrade the cluster first."
)


def _policies(cluster: Cluster) -> list[Object]:
    """What the GPU Operator is told to install; a cluster that never had one has no such list."""
    try:
        return list(cluster.items(operands.POLICIES))
    except ApiRefused as refused:
        if refused.status != MISSING:
            raise
        return []


class ActionModule(ControllerAction):
    """Refuses Secrets that are not there, a second owner, and a device plugin whose GPUs would not reach containers."""

    def act(self, asked: dict[str, Any], check: bool) -> dict[str, Any]:  # noqa: ARG002 - changes nothing
        cluster = Cluster(asked["kubeconfig"])
        if asked["by_claims"] and not cluster.serves(dra.API):
            return {"changed": False, "failed": True, "msg": NO_API}
        pull_secrets.read(cluster, asked["namespace"], asked["pull_secrets"])
        daemon_sets, deployments = (
            cluster.items(f"/apis/apps/v1/{kind}") for kind in ("daemonsets", "deployments")
        )
        components = [*asked["components"], *([DRA_DRIVER] if asked["by_claims"] else [])]
        found = operands.second_owners(
            [*daemon_sets, *deployments], asked["namespace"], components, lambda: _policies(cluster)
        )
        accepted, unreached, untold = asked["plugin_strategies"], [], []
        if accepted is not None:
            unreached = plugin_strategy.unreached(daemon_sets, accepted)
            untold = plugin_strategy.untold(daemon_sets)
        if found or unreached:
            fight = (
                [f"Two owners of one operand would fight over the GPUs: {' '.join(found)}"] if found else []
            )
            return {"changed": False, "failed": True, "msg": " ".join([*fight, *unreached])}
        there = cluster.get(f"/api/v1/namespaces/{asked['namespace']}") is not None
        return {"changed": False, "namespace_exists": there, **({"warnings": untold} if untold else {})}
