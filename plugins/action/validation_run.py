"""Action plugin: run the validation suite as a user would, with its output in a log."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from typing import Any, ClassVar

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import ControllerAction

from gpusmith.suite import start


class ActionModule(ControllerAction):
    """Starts pytest and waits for its end."""

    SPEC: ClassVar[dict[str, dict[str, Any]]] = {
        "suite": {"type": "path", "required": True},
        "inventory": {"type": "str", "required": True},
        "limit": {"type": "list", "elements": "str", "required": True},
        "report_dir": {"type": "path", "required": True},
        "log": {"type": "path", "required": True},
        "timeout": {"type": "float", "default": 7200.0},
    }

    def act(self, asked: dict[str, Any], check: bool) -> dict[str, Any]:
        if check:
            return {"skipped": True, "msg": "The suite runs pods: it is not run in check mode."}
        done = start.run(
            asked["suite"],
            asked["inventory"],
            asked["limit"],
            asked["report_dir"],
            asked["log"],
            asked["timeout"],
        )
        found = {"started": done.started, "results_file": done.results_file, "status": done.status}
        return {"changed": False, **found, **({"failed": True, "msg": done.trouble} if done.trouble else {})}
