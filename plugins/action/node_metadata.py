"""Action plugin: labels and taints of Node objects, as the inventory says and no more."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import ControllerAction
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import Variables

from gpusmith.cluster import node_metadata
from gpusmith.cluster.api import Cluster
from gpusmith.verdict.changes import TELLS


class ActionModule(ControllerAction):
    """Waits for the nodes and patches them; what went wrong with one is said of that one."""

    def act(self, asked: dict[str, Any], check: bool) -> dict[str, Any]:
        of = Variables(self.variables["hostvars"], self._loader)
        wanted = {
            name: node_metadata.Wanted.read(row, of.layout(name)) for name, row in asked["nodes"].items()
        }
        states = node_metadata.make(Cluster(asked["kubeconfig"]), wanted, asked["ready_timeout"], check)
        patched = {name: state.patched for name, state in states.items() if state.patched}
        told = {
            name: {"changes": state.changes, "notes": state.notes}
            for name, state in states.items()
            if state.changes or state.notes
        }
        return {
            "changed": bool(patched),
            **({TELLS: told} if told else {}),
            "nodes": {name: asdict(state) for name, state in states.items()},
            "diff": {"prepared": json.dumps(patched, indent=2) if patched else ""},
        }
