"""Action plugin: wait until the monitoring runs and Prometheus gets values, and say how to open it."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import ControllerAction

from gpusmith.cluster import monitoring
from gpusmith.cluster.api import Cluster
from gpusmith.verdict.changes import TELLS
from gpusmith.verdict.run import CLUSTER


class ActionModule(ControllerAction):
    """Waits; in check mode nothing may be there yet."""

    def act(self, asked: dict[str, Any], check: bool) -> dict[str, Any]:
        missing = monitoring.Missing()
        if not check:
            missing = monitoring.wait_for(
                Cluster(asked["kubeconfig"]),
                asked["objects"],
                asked["namespace"],
                asked["jobs"],
                asked["nodes"],
                asked["timeout"],
            )
        return {
            "changed": False,
            "missing": missing.of_all,
            "late": dict(missing.of_nodes),
            # How to open what does not run is no help.
            TELLS: {CLUSTER: {"notes": [] if missing.of_all else asked["notes"]}},
        }
