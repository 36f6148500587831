"""Action plugin: which nodes must be validated, by one list of Nodes."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import ControllerAction

from gpusmith.cluster import stamps
from gpusmith.cluster.api import Cluster
from gpusmith.paths import working_root


class ActionModule(ControllerAction):
    """Compares stamps with facts."""

    def act(self, asked: dict[str, Any], check: bool) -> dict[str, Any]:
        reasons = stamps.plan(Cluster(asked["kubeconfig"]), asked["nodes"], asked["policy"], check)
        return {"changed": False, "hosts": sorted(reasons), "reasons": reasons, "root": str(working_root())}
