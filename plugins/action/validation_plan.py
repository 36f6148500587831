"""Action plugin: which nodes must be validated, by one list of Nodes."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import ControllerAction

from gpusmith.cluster import stamps
from gpusmith.cluster.api import Cluster
from gpusmith.paths import working_root
from gpusmith.verdict.changes import TELLS


class ActionModule(ControllerAction):
    """Compares stamps with facts, and has conditions follow the stamps that hold."""

    def act(self, asked: dict[str, Any], check: bool) -> dict[str, Any]:
        cluster, hosts = Cluster(asked["kubeconfig"]), asked["nodes"]
        there = stamps.by_name(cluster)
        reasons = stamps.plan(there, hosts, asked["policy"], check)
        others = {host: entry for host, entry in hosts.items() if host not in reasons}
        said = stamps.say_stamps(cluster, there, others, check)
        return {
            "changed": bool(said),
            **(
                {TELLS: {host: {"changes": {"more": [words]}} for host, words in said.items()}}
                if said
                else {}
            ),
            "hosts": sorted(reasons),
            "reasons": reasons,
            "root": str(working_root()),
        }
