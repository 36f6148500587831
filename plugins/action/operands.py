"""Action plugin: make objects that are ours alone what the role says, or delete them."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from typing import Any, ClassVar

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import ControllerAction

from gpusmith.cluster import apply
from gpusmith.cluster.api import Cluster


class ActionModule(ControllerAction):
    """Takes fields of others over, applies, and says what that changed."""

    SPEC: ClassVar[dict[str, dict[str, Any]]] = {
        "kubeconfig": {"type": "path", "required": True},
        "objects": {"type": "list", "elements": "dict", "required": True},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "timeout": {"type": "float", "default": 300.0},
    }

    def act(self, asked: dict[str, Any], check: bool) -> dict[str, Any]:
        cluster, objects = Cluster(asked["kubeconfig"]), asked["objects"]
        if asked["state"] == "absent":
            gone = apply.remove(cluster, objects, asked["timeout"], check)
            return {"changed": bool(gone), "objects": gone, "foreign": {}, "left_out": []}
        done = apply.apply(cluster, objects, check)
        lines = [f"{name}: {', '.join(fields)}" for name, fields in done.foreign.items()]
        diff: list[dict[str, Any]] = [
            {"prepared": "".join(f"others set, which is taken away: {line}\n" for line in lines)}
        ]
        diff += [
            {"before": before, "after": after, "before_header": name, "after_header": name}
            for name, (before, after) in done.changed.items()
        ]
        return {
            "changed": bool(done.foreign or done.changed),
            "objects": list(done.changed),
            "foreign": done.foreign,
            "left_out": done.left_out,
            "msg": f"Others set, which is taken away: {'; '.join(lines)}."
            if lines
            else "Nobody else set anything.",
            "diff": diff,
        }
